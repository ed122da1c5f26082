import type { ParseArgsOptionsConfig } from 'node:util';

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
