// Apptainer's own shell loses a carriage return before a line feed, and takes the backslash of an escaped
// single quote for a character: such pairs are taken apart, and quotes quoted.

/** Quotes any text as one word of a shell. Source: POSIX.1-2017, Shell 2.2.2. */
export function singleQuoted(text: string): string {
  return `'${withoutNul(text).replaceAll("'", `'"'"'`).replaceAll('\r\n', "\r''\n")}'`;
}

/** The text as one word in double quotes, of which a shell substitutes nothing. Source: the same, 2.2.3. */
export function doubleQuoted(text: string): string {
  return `"${withoutNul(text)
    .replace(/["\\$`]/g, '\\$&')
    .replaceAll('\r\n', '\r""\n')}"`;
}

/** Returns true if a shell accepts the text as the name of a variable. */
export function isVariableName(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text);
}

/** No argument or variable of a process can have one. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '');
}
