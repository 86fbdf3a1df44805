// Writes the types of a flow's file from its JSON schema, so that a new key reaches the editor; --check only compares.

import { compile, type JSONSchema } from "json-schema-to-typescript";
import { readFileSync, writeFileSync } from "node:fs";

const SCHEMA = new URL("../../../docs/reference/flow.schema.json", import.meta.url);
const TYPES = new URL("src/editor/model/schema.ts", import.meta.url);

// A title makes a named type; only those of whole objects are worth a name.
const schema = JSON.parse(readFileSync(SCHEMA, "utf8"), (key, value: unknown) => {
  if (key === "properties") for (const property of Object.values(value as object)) delete property.title;
  return value;
}) as JSONSchema;
const types = await compile(schema, "Flow", {
  additionalProperties: false,
  bannerComment: "// Made from docs/reference/flow.schema.json by `make fix`.",
  ignoreMinAndMaxItems: true,
  style: { printWidth: 120 },
});

if (!process.argv.includes("--check")) writeFileSync(TYPES, types);
else if (readFileSync(TYPES, "utf8") !== types) {
  console.error("src/editor/model/schema.ts differs from the schema of flows. Run `make fix`.");
  process.exit(1);
}
