"""The JSON Schema of study files, for editors."""

from __future__ import annotations

import json

from pacebench.harness.study.models import Study


def schema_text() -> str:
    """Returns the schema as JSON text.

    A curriculum or a learner may be given as a plain name, which a validator of ours turns into an
    entry before pydantic sees it. Pydantic's schema therefore lacks that form; it is added here.
    """
    schema = Study.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "pacebench study"
    entry = {"$ref": "#/$defs/CurriculumEntry"}
    properties = schema["properties"]
    properties["curricula"]["items"] = {"anyOf": [{"type": "string"}, entry]}
    # Setups that a study declares stand among the names of the others.
    declared = properties.pop("declared")["items"]
    properties["setups"]["items"] = {"anyOf": [{"type": "string"}, declared]}
    learner = {"$ref": "#/$defs/LearnerEntry"}
    properties["learner"] = {"anyOf": [{"type": "string"}, learner], "default": "ppo"}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
