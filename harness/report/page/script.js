"use strict";
(() => {
  const root = document.documentElement;
  const every = (selector, within) => Array.from((within || document).querySelectorAll(selector));

  // Colours: what the system says, unless the reader says otherwise.
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const keep = (value) => { try { localStorage.setItem("pacebench-theme", value); } catch { /* a file may have no storage */ } };
  const kept = () => { try { return localStorage.getItem("pacebench-theme"); } catch { return null; } };
  const paint = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", theme);
    button.dataset.theme = theme;
    button.textContent = { auto: "◐ auto", light: "○ light", dark: "● dark" }[theme];
  };
  paint(themes.includes(kept()) ? kept() : "auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.theme) + 1) % themes.length];
    paint(next); keep(next);
  });

  // Curricula can be taken out of every figure at once.
  for (const toggle of every(".toggle")) {
    toggle.addEventListener("click", () => {
      const on = toggle.getAttribute("aria-pressed") !== "true";
      toggle.setAttribute("aria-pressed", String(on));
      for (const drawn of every(`svg [data-method="${toggle.dataset.method}"]`)) drawn.classList.toggle("off", !on);
    });
  }

  // Every column sorts: numbers by value, words by alphabet, what is missing last.
  for (const table of every("table.sortable")) {
    const heads = every("thead th", table);
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const numeric = head.classList.contains("number");
        const body = table.tBodies[0];
        const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
        const rows = Array.from(body.rows).map((row, place) => ({ row, place, key: numeric ? parseFloat(key(row)) : key(row) }));
        rows.sort((a, b) => {
          if (numeric) {
            const lost = Number(Number.isNaN(a.key)) - Number(Number.isNaN(b.key));
            if (lost || Number.isNaN(a.key)) return lost || a.place - b.place;
            return (down ? b.key - a.key : a.key - b.key) || a.place - b.place;
          }
          const order = a.key.localeCompare(b.key, undefined, { numeric: true });
          return (down ? -order : order) || a.place - b.place;
        });
        body.append(...rows.map((item) => item.row));
      });
    });
  }

  // Hovering over a seed or a curve says whose it is. Thin lines get a wide, unseen hit area.
  const tip = document.getElementById("tip");
  for (const drawn of every("svg g[data-tip]")) {
    for (const path of every(":scope > path", drawn)) {
      if (path.style.fill !== "none") continue;
      const hit = path.cloneNode(false);
      hit.removeAttribute("id"); hit.removeAttribute("style"); hit.setAttribute("class", "hit"); hit.setAttribute("stroke-width", "7");
      drawn.append(hit);
    }
  }
  const show = (drawn, x, y) => {
    tip.textContent = drawn.dataset.tip;
    tip.classList.add("on");
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 6))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  };
  let hot = null;
  document.addEventListener("pointermove", (event) => {
    const drawn = event.target instanceof Element ? event.target.closest("svg [data-tip]") : null;
    if (hot && hot !== drawn) hot.classList.remove("hot");
    hot = drawn;
    if (!drawn) { tip.classList.remove("on"); return; }
    drawn.classList.add("hot");
    show(drawn, event.clientX, event.clientY);
  });
  document.addEventListener("scroll", () => tip.classList.remove("on"), { passive: true });

  // The list of contents follows the reader.
  const links = new Map(every("aside a").map((link) => [link.hash.slice(1), link]));
  if (links.size && "IntersectionObserver" in window) {
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.classList.remove("here");
        const link = links.get(entry.target.id);
        if (link) link.classList.add("here");
      }
    }, { rootMargin: "-15% 0px -75% 0px" });
    for (const section of every("section[id]")) watch.observe(section);
  }
  root.dataset.ready = "true";
})();
