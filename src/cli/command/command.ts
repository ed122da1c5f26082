import { text as readText } from 'node:stream/consumers';
import type { ParseArgsOptionsConfig } from 'node:util';
import { terminalLine, terminalLines } from '../../foundation/text.ts';

/** A command that performs an action: `sluice build`, or `add` of `sluice user`. */
export interface Command {
  /** One sentence without its full stop. */
  readonly summary: string;
  /** Arguments after the name, one entry for each form; `[options]` is added. */
  readonly usage: readonly string[];
  readonly options: Readonly<Record<string, Option>>;
  /** Completions that a shell offers for the arguments. */
  readonly completes?: Completion;
  /** The environment variables that the command reads, with their meanings. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Exit codes that differ from {@link exitCodes}. */
  readonly exits?: Readonly<Record<number, string>>;
  /** Returns the exit code. Throws {@link CommandError} for a problem that the user can fix. */
  run(values: Values, args: readonly string[]): Promise<number>;
}

/** A command whose next word names an action: `sluice user`. */
export interface CommandGroup {
  readonly summary: string;
  readonly actions: Readonly<Record<string, Command>>;
}

export type CommandNode = Command | CommandGroup;

/** Commands by name. Each is loaded when it is called, so a start pays for its own command only. */
export type Commands = Readonly<Record<string, () => Promise<CommandNode>>>;

/** Values that a shell can complete: files, directories, or one of the words. */
export type Completion = 'file' | 'directory' | readonly string[];

export type Option = ParseArgsOptionsConfig[string] & {
  /** One sentence or more, without the last full stop. */
  readonly description: string;
  /** The name of the value in the help; absent for a flag. */
  readonly value?: string;
  readonly completes?: Completion;
};

export type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

/** The command line is wrong, or the command failed; the message is for the user. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The arguments do not fit the command; the usage is shown with the message. */
export class UsageError extends CommandError {
  constructor(message: string) {
    super(message, 2);
  }
}

/** True for a command whose next word names an action. */
export function isGroup(node: CommandNode): node is CommandGroup {
  return 'actions' in node;
}

/** Returns the value of an option that is given at most once. */
export function text(values: Values, name: string): string | undefined {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
}

/** Returns the values of an option that may be given several times. */
export function texts(values: Values, name: string): string[] {
  const value = values[name];
  return Array.isArray(value) ? value.filter(entry => typeof entry === 'string') : [];
}

/** Returns the only argument. Throws {@link UsageError} for none and for more than one. */
export function only(args: readonly string[], what: string): string {
  const [arg] = args;
  if (arg === undefined) throw new UsageError(`Missing argument: ${what}`);
  if (args.length > 1) {
    throw new UsageError(`Expected one argument (${what}), got ${args.length}: ${args.join(' ')}`);
  }
  return arg;
}

/** Throws {@link UsageError} for any argument. */
export function none(args: readonly string[]): void {
  if (args.length > 0) throw new UsageError(`Unexpected argument: ${args.join(' ')}`);
}

/** Returns the value of an option. Throws {@link UsageError} when it is absent. */
export function required(values: Values, name: string, value: string): string {
  const given = text(values, name);
  if (given !== undefined) return given;
  throw new UsageError(`Missing option: --${name} ${value}`);
}

/** Meanings of the exit codes of all commands. */
export const exitCodes: Readonly<Record<number, string>> = {
  0: 'The command succeeded',
  1: 'The command failed. The message says why',
  2: 'The command line or a setting is wrong. Nothing was changed',
};

/** The exit code that a shell reports for SIGPIPE. */
export const outputClosed = 141;

/** The exit codes of commands that follow a build. */
export const followExits: Readonly<Record<number, string>> = {
  1: 'The command or the build failed',
  130: 'Interrupted with Ctrl-C. The build continues unless you cancelled it',
  [outputClosed]: 'The program that read the output has ended, such as head',
};

/** Returns the meaning of each exit code of a command. */
export function exitsOf({ exits }: Pick<Command, 'exits'>): readonly [string, string][] {
  return Object.entries({ ...exitCodes, ...exits });
}

/** The option of every command that prints something. */
export const jsonOption: Option = {
  type: 'boolean',
  description: 'Print the result as JSON',
};

/** The option of every command that talks to a server. */
export const serverOption: Option = {
  type: 'string',
  value: 'URL',
  description: 'Address of the server. Default: SLUICE_SERVER, then http://127.0.0.1:9090',
};

/** The variables of every command that talks to a server. */
export const serverVariables: Readonly<Record<string, string>> = {
  SLUICE_SERVER: 'Address of the server; --server wins',
  SLUICE_CA: 'PEM file with the certificate authority of the server',
};

/** The variable of every command that acts as a user. */
export const tokenVariable: Readonly<Record<string, string>> = {
  SLUICE_TOKEN: 'Access token of the user',
};

/** The option that names the configuration file. */
export const configOption: Option = {
  type: 'string',
  value: 'FILE',
  completes: 'file',
  description: 'Configuration file (YAML). Default: SLUICE_CONFIG',
};

/** The options of every command that works on a data directory. */
export const dataOptions: Readonly<Record<string, Option>> = {
  data: {
    type: 'string',
    value: 'DIRECTORY',
    completes: 'directory',
    description: 'Data directory of the server. Default: SLUICE_DATA, then ./data',
  },
  config: configOption,
};

/** The variables of every command that works on a data directory. */
export const dataVariables: Readonly<Record<string, string>> = {
  SLUICE_DATA: 'Data directory; --data wins',
  SLUICE_CONFIG: 'Configuration file; --config wins',
};

/** Returns the environment in which the given options replace their variables. */
export function environmentWith(values: Values, names: readonly string[]): NodeJS.ProcessEnv {
  const environment = { ...process.env };
  for (const name of names) {
    const value = text(values, name);
    if (value !== undefined) environment[`SLUICE_${name.toUpperCase()}`] = value;
  }
  return environment;
}

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

/**
 * Returns the password on standard input without the newline at its end, like `docker login --password-stdin`. Throws
 * {@link CommandError} when there is none.
 *
 * @param command the command that the user writes, without the redirection
 */
export async function readPassword(command: string): Promise<string> {
  const password = (await readText(process.stdin)).replace(/\r?\n$/, '');
  if (password !== '') return password;
  throw new CommandError(`Standard input contains no password: write ${command} < FILE`, 2);
}
