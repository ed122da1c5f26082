const plain = /^(?:https?:\/\/)?[A-Za-z_][A-Za-z0-9_./+-]*$/;
// Words that YAML 1.1 or 1.2 reads as something other than a text.
const words = new Set(['y', 'n', 'yes', 'no', 'on', 'off', 'true', 'false', 'null', 'nan', 'inf']);

/**
 * Returns a text as a YAML value on one line: as it is where every parser reads it as a text, otherwise in quotes. The
 * text has no control characters.
 */
export function yamlText(text: string): string {
  return plain.test(text) && !words.has(text.toLowerCase()) ? text : JSON.stringify(text);
}

/** Returns the line of a member of a mapping; nothing for a value that is undefined. */
export function yamlLine(
  indent: string,
  name: string,
  value: string | number | undefined,
): readonly string[] {
  if (value === undefined) return [];
  return [`${indent}${name}: ${typeof value === 'number' ? value : yamlText(value)}`];
}

/** Returns the lines of a list of texts in a mapping; nothing for an empty list. */
export function yamlList(
  indent: string,
  name: string,
  values: readonly string[],
): readonly string[] {
  if (values.length === 0) return [];
  return [`${indent}${name}:`, ...values.map(value => `${indent}- ${yamlText(value)}`)];
}
