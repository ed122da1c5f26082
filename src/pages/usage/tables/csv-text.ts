/** Returns rows as a CSV file (RFC 4180). Programs for spreadsheets do not run any of its cells as a formula. */
export function csvText(rows: ReadonlyArray<readonly (string | number)[]>): string {
  return rows.map(row => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(value: string | number): string {
  const text = String(value);
  const safe = typeof value === 'string' && /^\s*[=+\-@]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
