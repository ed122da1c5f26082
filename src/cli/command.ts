import type { ParseArgsOptionsConfig } from 'node:util';

/** One subcommand of `sluice`. */
export interface Command {
  readonly summary: string;
  readonly usage: string;
  readonly options: Readonly<Record<string, Option>>;
  /** Returns the exit code. Throws {@link CommandError} for what the user can mend. */
  run(values: Values, positionals: readonly string[]): Promise<number>;
}

export type Option = ParseArgsOptionsConfig[string] & {
  readonly description: string;
  /** How the value is called in the help; none for a flag. */
  readonly value?: string;
};

export type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

/** The command line is wrong, or what it asks for did not work; the message is for the user. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The value of an option that is given at most once. */
export function text(values: Values, name: string): string | undefined {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
}

/** The values of an option that may be given several times. */
export function texts(values: Values, name: string): string[] {
  const value = values[name];
  return Array.isArray(value) ? value.filter(entry => typeof entry === 'string') : [];
}

/** What `--help` prints. */
export function helpOf({ summary, usage, options }: Command): string {
  const rows = Object.entries(options).map(([name, { short, value, description }]) => {
    const letter = short === undefined ? '' : `-${short}, `;
    const form = `${letter}--${name}${value === undefined ? '' : ` ${value}`}`;
    return { form, description };
  });
  const width = Math.max(...rows.map(({ form }) => form.length));
  const lines = rows.map(({ form, description }) => `  ${form.padEnd(width)}  ${description}`);
  return [`${summary}.`, '', `Usage: sluice ${usage}`, '', ...lines].join('\n');
}
