import { parseArgs } from 'node:util';
import { nearestName } from '../../foundation/nearest-name.ts';
import { readVersion } from '../../foundation/version.ts';
import {
  type Command,
  CommandError,
  type CommandNode,
  type Commands,
  exitsOf,
  isGroup,
  type Option,
  outputClosed,
  UsageError,
  type Values,
} from './command.ts';
import { wakeThreads } from './wake-threads.ts';

/** Runs `sluice` with these words and returns the exit code. */
export async function runCommandLine(
  words: readonly string[],
  commands: Commands,
): Promise<number> {
  const [name = 'help', ...rest] = words;
  try {
    if (name === '--version') return printHelp(readVersion().version);
    if (name === 'help' && rest.length > 0)
      return await runCommandLine([...rest, '--help'], commands);
    if (['help', '--help', '-h'].includes(name))
      return printHelp(overviewOf(await loadAll(commands)));
    if (name.startsWith('-')) throw new UsageError(`Unknown option: ${name}`);
    return await runNode(name, await findNamed(commands, name, 'command')(), rest);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    console.error(error.message);
    if (error instanceof UsageError) console.error("\nRun 'sluice --help' for all commands.");
    return error.exitCode;
  }
}

/** Loads the declarations of commands. */
export async function loadAll(from: Commands): Promise<Readonly<Record<string, CommandNode>>> {
  const entries = Object.entries(from).map(async ([name, load]) => [name, await load()]);
  return Object.fromEntries(await Promise.all(entries));
}

async function runNode(name: string, node: CommandNode, words: readonly string[]): Promise<number> {
  try {
    if (isGroup(node)) {
      const [action, ...rest] = words;
      if (action === '--help' || action === '-h') return printHelp(helpOf(name, node));
      if (action === undefined) throw new UsageError(`Missing action: ${actionsOf(node)}`);
      return await runNode(`${name} ${action}`, findNamed(node.actions, action, 'action'), rest);
    }
    const { values, args } = parseCommand(node, words);
    if (values.help) return printHelp(helpOf(name, node));
    wakeThreads();
    return await node.run(values, args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const advice = `${usageOf(name, node)}\n\nRun 'sluice ${name} --help' for its options.`;
    throw new CommandError(`${error.message}\n\n${advice}`, 2);
  }
}

function actionsOf(node: CommandNode): string {
  return isGroup(node) ? Object.keys(node.actions).join(', ') : '';
}

function printHelp(text: string): number {
  console.log(text);
  return 0;
}

/** Returns the values of the options and the arguments. Throws {@link UsageError}. */
export function parseCommand(
  command: Command,
  words: readonly string[],
): { readonly values: Values; readonly args: readonly string[] } {
  const options = { ...command.options, help: helpOption };
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      options,
      allowPositionals: true,
    });
    return { values, args: positionals };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    // The sentences after the first one are about arguments that begin with a dash.
    const [why = ''] = error.message.split('. ');
    const [, unknown] = /^Unknown option '--([^']+)'/.exec(why) ?? [];
    const meant = unknown === undefined ? undefined : nearestName(unknown, Object.keys(options));
    throw new UsageError(`${why}${suggestionText(meant === undefined ? undefined : `--${meant}`)}`);
  }
}

/** Returns the command that a word names. Throws {@link UsageError} with the most similar name. */
function findNamed<T>(known: Readonly<Record<string, T>>, word: string, what: string): T {
  const found = Object.hasOwn(known, word) ? known[word] : undefined;
  if (found !== undefined) return found;
  if (what === 'command' && word === 'login') {
    throw new UsageError(
      'There is no login: set SLUICE_SERVER to the address of the server, and SLUICE_TOKEN to your access token. The operator of the server creates the first one (sluice token add)',
    );
  }
  const meant = nearestName(word, Object.keys(known));
  throw new UsageError(`Unknown ${what}: ${word}${suggestionText(meant)}`);
}

function suggestionText(meant: string | undefined): string {
  return meant === undefined ? '' : `. Did you mean ${meant}?`;
}

/** The option of every command. */
export const helpOption: Option = {
  type: 'boolean',
  short: 'h',
  description: 'Show this help',
};

const helpColumns = 80;
const widestTerm = 24;
// The summaries of all sections of the overview begin in the same column.
const widestName = 12;

/** Returns the help of a command; `name` is its full name without `sluice`. */
export function helpOf(name: string, node: CommandNode): string {
  return isGroup(node) ? groupHelp(name, node.summary, node.actions) : commandHelp(name, node);
}

/** The commands by what people want to do, in the order of the help. */
const sections: Readonly<Record<string, readonly string[]>> = {
  'Get images': ['search', 'request', 'build', 'mirror', 'name'],
  'Look into them': [
    'builds',
    'logs',
    'open',
    'cancel',
    'inspect',
    'files',
    'scan',
    'sbom',
    'containers',
    'repositories',
  ],
  'Manage people': ['user', 'token', 'workspace', 'credentials', 'account', 'audit', 'messages'],
  'Run a server': [
    'serve',
    'config',
    'gc',
    'verify',
    'backup',
    'restore',
    'migrate',
    'replicas',
    'rotate-key',
  ],
  Other: ['completion'],
};

/** What a user of a server elsewhere must set first. */
const overviewVariables: Readonly<Record<string, string>> = {
  SLUICE_SERVER: 'Address of the server. Default: http://127.0.0.1:9090',
  SLUICE_TOKEN: 'Access token of the user, where the server requires a login',
};

const examples = `
Examples:
  sluice build --conda samtools=1.20 --await    Packages as an image
  sluice build . --await                        The Dockerfile of this directory
  sluice request alpine:3.20 --env NAME=value   An image with a change`;

/** Returns the help of `sluice` itself. A package with fewer commands has those only. */
export function overviewOf(commands: Readonly<Record<string, CommandNode>>): string {
  return [
    'Usage: sluice COMMAND [options]',
    '       sluice help COMMAND',
    '       sluice --version',
    ...Object.entries(sections)
      .map(([title, names]) => commandSection(title, names, commands))
      .filter(section => section !== ''),
    helpSection('Environment', Object.entries(overviewVariables)),
    examples,
    "\nRun 'sluice COMMAND --help' for the options of a command.",
  ].join('\n');
}

function commandSection(
  title: string,
  names: readonly string[],
  commands: Readonly<Record<string, CommandNode>>,
): string {
  return helpSection(
    title,
    names.flatMap((name): [string, string][] => {
      const node = commands[name];
      return node ? [[name.padEnd(widestName), node.summary]] : [];
    }),
  );
}

/** Returns the usage lines of a command. */
export function usageOf(name: string, node: CommandNode): string {
  const forms = isGroup(node)
    ? [`${name} ACTION [options]`]
    : node.usage.map(form => [name, form, '[options]'].filter(part => part !== '').join(' '));
  return forms
    .map((form, at) => wrappedLine(`${at === 0 ? 'Usage: ' : ' '.repeat(7)}sluice ${form}`, 10))
    .join('\n');
}

/** Returns the written form of an option: `-f, --file FILE`. */
export function formOf(name: string, { short, value }: Option): string {
  const letter = short === undefined ? '' : `-${short}, `;
  return `${letter}--${name}${value === undefined ? '' : ` ${value}`}`;
}

/** Returns the description of an option for its help, which says whether the option may be repeated. */
export function descriptionOf({ description, multiple }: Option): string {
  return multiple ? `${description}. Repeatable` : description;
}

function groupHelp(
  name: string,
  summary: string,
  actions: Readonly<Record<string, Command>>,
): string {
  return [
    wrappedLine(`${summary}.`, 0),
    '',
    `Usage: sluice ${name} ACTION [options]`,
    helpSection('Actions', summariesOf(actions)),
    `\nRun 'sluice ${name} ACTION --help' for the options of an action.`,
  ].join('\n');
}

function commandHelp(name: string, command: Command): string {
  const options = Object.entries({ ...command.options, help: helpOption });
  const parts = [
    wrappedLine(`${command.summary}.`, 0),
    '',
    usageOf(name, command),
    helpSection(
      'Options',
      options.map(([option, declared]) => [formOf(option, declared), descriptionOf(declared)]),
    ),
    helpSection('Environment', Object.entries(command.variables ?? {})),
    helpSection('Exit codes', exitsOf(command)),
  ];
  return parts.filter((part, at) => at === 1 || part !== '').join('\n');
}

function summariesOf(nodes: Readonly<Record<string, CommandNode>>): [string, string][] {
  return Object.entries(nodes).map(([name, { summary }]) => [name, summary]);
}

/** Returns a title and its rows; empty without rows. A long term gets its own line. */
function helpSection(title: string, rows: readonly (readonly [string, string])[]): string {
  if (rows.length === 0) return '';
  const short = rows.map(([term]) => term.length).filter(length => length <= widestTerm);
  const indent = 2 + Math.max(0, ...short) + 2;
  const lines = rows.map(([term, description]) => {
    const start = `  ${term}`;
    if (term.length > widestTerm)
      return `${start}\n${wrappedLine(' '.repeat(indent) + description, indent)}`;
    return wrappedLine(start.padEnd(indent) + description, indent);
  });
  return [`\n${title}:`, ...lines].join('\n');
}

/** Breaks a line between words; further lines begin with the indent. */
function wrappedLine(line: string, indent: number): string {
  if (line.length <= helpColumns) return line;
  const end = line.lastIndexOf(' ', helpColumns);
  // A word that is wider than the page stays whole.
  const at = end > indent ? end : line.indexOf(' ', helpColumns);
  if (at < 0) return line;
  return `${line.slice(0, at)}\n${wrappedLine(' '.repeat(indent) + line.slice(at + 1), indent)}`;
}

/**
 * Ends this process when the reader of its standard output is gone, as in `sluice logs ... | head`. Without this, the next
 * output ends it with a stack trace.
 */
export function endWithoutReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(outputClosed);
  });
}
