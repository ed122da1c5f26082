import { terminalLine, terminalLines } from '../../foundation/text/terminal-text.ts';
import type { Values } from './command.ts';

/** Prints the response as JSON with `--json`, else the lines. */
export function print(values: Values, response: object, lines: string | readonly string[]): void {
  if (values.json) console.log(JSON.stringify(response, null, 2));
  else for (const line of [lines].flat()) console.log(terminalLines(line));
}

/** Returns a header row and rows, in columns. */
export function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const all = [header.map(name => name.toUpperCase()), ...rows.map(row => row.map(terminalLine))];
  const widths = header.map((_, at) => Math.max(...all.map(row => row[at]?.length ?? 0)));
  return all.map(row =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
