import { type Command, CommandError, type Values } from './command.ts';

/** What a command does by the word that follows its name: `sluice user add ...`. */
export type Action = (values: Values, args: readonly string[]) => Promise<void>;

/** The `run` of a command that has several actions. */
export function actions(
  name: string,
  known: Readonly<Record<string, Action>>,
): Pick<Command, 'run'> {
  return {
    async run(values, [word = '', ...args]) {
      const action = Object.hasOwn(known, word) ? known[word] : undefined;
      if (!action) {
        throw new CommandError(
          `Name an action: sluice ${name} ${Object.keys(known).join('|')}. Run sluice ${name} --help for options`,
          2,
        );
      }
      await action(values, args);
      return 0;
    },
  };
}

/** The one argument of an action; throws {@link CommandError} for none, and for more. */
export function only(args: readonly string[], usage: string): string {
  const [arg] = args;
  if (arg !== undefined && args.length === 1) return arg;
  throw new CommandError(`Usage: sluice ${usage}`, 2);
}

/** Throws {@link CommandError} for any argument. */
export function none(args: readonly string[], usage: string): void {
  if (args.length > 0) throw new CommandError(`Usage: sluice ${usage}`, 2);
}

/** Prints the answer as JSON where that is wanted, else the lines. */
export function print(values: Values, answer: object, lines: string | readonly string[]): void {
  if (values.json) console.log(JSON.stringify(answer, null, 2));
  else for (const line of [lines].flat()) console.log(line);
}

/** Rows under each other in columns. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows.reduce<number[]>(
    (sums, row) => row.map((cell, at) => Math.max(cell.length, sums[at] ?? 0)),
    [],
  );
  return rows.map(row =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
