"use strict";
(() => {
  const root = document.documentElement;
  const every = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const element = (name, attributes, ...inside) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  };
  const embedded = document.getElementById("data");
  const data = embedded ? JSON.parse(embedded.textContent) : null;

  // What the reader chose stands in the address, so that it can be sent to somebody.
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const keep = () => {
    const said = state.toString();
    history.replaceState(null, "", said ? `#${said}` : location.pathname + location.search);
  };
  const choose = (key, value) => { if (value) state.set(key, value); else state.delete(key); keep(); };

  // Colours: what the system says, unless the reader says otherwise.
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const paint = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", theme);
    button.dataset.theme = theme;
    button.textContent = { auto: "◐ auto", light: "○ light", dark: "● dark" }[theme];
  };
  paint(themes.includes(state.get("theme")) ? state.get("theme") : "auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.theme) + 1) % themes.length];
    paint(next);
    choose("theme", next === "auto" ? "" : next);
  });

  // A curriculum is taken out everywhere: figures, rows of tables, claims, panels.
  const off = new Set((state.get("off") || "").split(",").filter(Boolean));
  const hide = () => {
    for (const toggle of every(".toggle")) toggle.setAttribute("aria-pressed", String(!off.has(toggle.dataset.method)));
    for (const drawn of every("[data-m]")) drawn.classList.toggle("off", drawn.dataset.m.split(" ").some((m) => off.has(m)));
  };
  for (const toggle of every(".toggle")) {
    toggle.addEventListener("click", () => {
      const method = toggle.dataset.method;
      if (!off.delete(method)) off.add(method);
      hide();
      choose("off", [...off].join(","));
    });
  }
  if (off.size) hide();

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

  // One run: a dot, a line or a row of the table leads to it.
  const dialog = document.getElementById("run");
  const unitOf = (drawn) => {
    const said = drawn.dataset.u ?? (/^#r(\d+)$/.exec(drawn.getAttribute("href") || "") || [])[1];
    return data && said !== undefined ? Number(said) : null;
  };
  const share = (value) => (value === null ? "–" : `${Math.round(100 * value)} %`);
  const name = (run) => `${data.methods[run.m]} on ${data.setups[run.s]}, ${data.search ? "observation" : "seed"} ${run.seed}`;
  const curve = (title, x, y) => {
    const known = y.filter((v) => v !== null);
    const box = element("div", { class: "panel" }, element("p", {}, title));
    if (known.length < 2) { box.append("not recorded"); return box; }
    const low = Math.min(...known), high = Math.max(...known), span = high - low || 1;
    const points = y.map((v, i) => (v === null ? "" : `${6 + 188 * x[i] / data.budget},${110 - 100 * (v - low) / span}`)).filter(Boolean);
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 200 128");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${title}: from ${y.find((v) => v !== null)} to ${known[known.length - 1]}`);
    const line = document.createElementNS(space, "polyline");
    line.setAttribute("class", "mean");
    line.setAttribute("points", points.join(" "));
    const text = document.createElementNS(space, "text");
    text.setAttribute("x", "6"); text.setAttribute("y", "124");
    text.textContent = `${low} to ${high} over ${data.budget.toLocaleString("en")} steps`;
    svg.append(line, text);
    box.append(svg);
    return box;
  };
  const openRun = (number) => {
    const run = data.runs[number];
    if (!run) return;
    const facts = element("dl", {});
    const fact = (term, said) => facts.append(element("dt", {}, term), element("dd", {}, said));
    fact("run", run.id);
    fact("ended", `${run.status}, ${run.solved ? "solved" : "not solved"}`);
    fact(data.score, String(run.return ?? "–"));
    fact("success", share(run.success));
    if (!data.foreign) {
      fact("steps to V₋", run.steps === null ? "never" : run.steps.toLocaleString("en"));
      fact("curriculum updates", String(run.updates));
    }
    const close = element("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
    close.addEventListener("click", () => dialog.close());
    const times = run.far.map((_, i) => (i * data.budget) / Math.max(run.far.length - 1, 1));
    const panels = element("div", { class: "panels", style: `--c: var(--m${run.m})` }, curve(data.score, data.grid, run.curve), curve(run.wasserstein ? "sliced Wasserstein distance to the target" : "KL(target ‖ sampled)", times, run.far));
    const replay = run.id.includes(" ") ? "" : `pacebench play results/${data.study}/runs/${run.id} --out episode.gif`;
    dialog.replaceChildren(close, element("h2", {}, name(run)), facts, panels);
    if (replay) dialog.append(element("p", {}, "Replay it (needs its policy): ", element("code", {}, replay)));
    if (run.log !== undefined) dialog.append(element("p", {}, "Last lines of its log:"), element("pre", { tabindex: "0" }, data.logs[run.log]));
    if (!dialog.open) dialog.showModal();
    choose("run", String(number));
  };
  dialog.addEventListener("close", () => choose("run", ""));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a, [data-u]") : null;
    const unit = link ? unitOf(link) : null;
    if (unit === null) return;
    event.preventDefault();
    openRun(unit);
  });
  // The table of all runs is the way to a run by keyboard.
  for (const row of data ? every("#table-runs tbody tr[id]") : []) {
    const code = row.querySelector("code");
    const link = element("a", { href: `#${row.id}` });
    code.replaceWith(link);
    link.append(code);
  }
  if (data && state.has("run")) openRun(Number(state.get("run")));

  // Hovering says what a mark is.
  const tip = document.getElementById("tip");
  const words = (drawn) => {
    if (drawn.dataset.tip) return drawn.dataset.tip;
    const run = data && unitOf(drawn) !== null ? data.runs[unitOf(drawn)] : null;
    return run ? `${name(run)}: return ${run.return}, success ${share(run.success)}${run.status === "ok" ? "" : ` (${run.status})`}` : "";
  };
  let hot = null;
  document.addEventListener("pointermove", (event) => {
    const drawn = event.target instanceof Element ? event.target.closest("[data-tip], [data-u], svg a") : null;
    if (hot && hot !== drawn) hot.classList.remove("hot");
    hot = drawn;
    tip.classList.toggle("on", Boolean(drawn));
    if (!drawn) return;
    drawn.classList.add("hot");
    tip.textContent = words(drawn);
    const box = tip.getBoundingClientRect(), x = event.clientX, y = event.clientY;
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 6))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  });
  document.addEventListener("scroll", () => tip.classList.remove("on"), { passive: true });

  // The way through context space, over time.
  for (const slider of every(".slider")) {
    const range = slider.querySelector("input"), output = slider.querySelector("output"), play = slider.querySelector("button");
    const moving = every("ellipse[data-frames]").map((drawn) => [drawn, drawn.dataset.frames.split(";").map((frame) => frame.split(","))]);
    const show = () => {
      const at = Number(range.value);
      output.textContent = `${Math.round((100 * at) / Number(range.max))} %`;
      for (const [drawn, frames] of moving) ["cx", "cy", "rx", "ry"].forEach((key, i) => drawn.setAttribute(key, frames[Math.min(at, frames.length - 1)][i]));
    };
    let timer = 0;
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "▶"; play.setAttribute("aria-label", "Play"); };
    play.addEventListener("click", () => {
      if (timer) { stop(); return; }
      if (range.value === range.max) range.value = 0;
      play.textContent = "⏸"; play.setAttribute("aria-label", "Pause");
      timer = setInterval(() => { range.value = Number(range.value) + 1; show(); if (range.value === range.max) { stop(); choose("t", ""); } }, 120);
    });
    range.addEventListener("input", () => { stop(); show(); choose("t", range.value === range.max ? "" : range.value); });
    if (state.has("t")) { range.value = state.get("t"); show(); }
    slider.hidden = false;
  }

  for (const link of every(".contents a")) link.addEventListener("click", () => link.closest("details").removeAttribute("open"));
  root.dataset.ready = "true";
})();
