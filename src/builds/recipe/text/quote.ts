/** Returns any text as one word of a POSIX shell. Source: POSIX.1-2017, Shell 2.2.2. */
export function quoteShell(text: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns the text as a value of ENV in a Dockerfile, safe from substitution. */
export function quoteEnv(text: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text;
  return `"${text.replace(/["\\$]/g, '\\$&')}"`;
}
