import { type Command, type CommandNode, isGroup, type Option } from './command.ts';
import { exitsOf } from './exit-codes.ts';

/** The option of every command. */
export const helpOption: Option = {
  type: 'boolean',
  short: 'h',
  description: 'Show this help',
};

const columns = 80;
const widestTerm = 24;

/** Returns the help of a command; `name` is its full name without `sluice`. */
export function helpOf(name: string, node: CommandNode): string {
  return isGroup(node) ? groupHelp(name, node.summary, node.actions) : commandHelp(name, node);
}

/** Returns the help of `sluice` itself. */
export function overviewOf(commands: Readonly<Record<string, CommandNode>>): string {
  return [
    'Usage: sluice COMMAND [options]',
    '       sluice help COMMAND',
    '       sluice --version',
    section('Commands', summariesOf(commands)),
    "\nRun 'sluice COMMAND --help' for the options of a command.",
  ].join('\n');
}

/** Returns the usage lines of a command. */
export function usageOf(name: string, node: CommandNode): string {
  const forms = isGroup(node)
    ? [`${name} ACTION [options]`]
    : node.usage.map(form => [name, form, '[options]'].filter(part => part !== '').join(' '));
  return forms
    .map((form, at) => wrapped(`${at === 0 ? 'Usage: ' : ' '.repeat(7)}sluice ${form}`, 10))
    .join('\n');
}

/** Returns the written form of an option: `-f, --file FILE`. */
export function formOf(name: string, { short, value }: Option): string {
  const letter = short === undefined ? '' : `-${short}, `;
  return `${letter}--${name}${value === undefined ? '' : ` ${value}`}`;
}

/** Returns the description of an option. */
export function descriptionOf({ description, multiple }: Option): string {
  return multiple ? `${description}. Repeatable` : description;
}

function groupHelp(
  name: string,
  summary: string,
  actions: Readonly<Record<string, Command>>,
): string {
  return [
    wrapped(`${summary}.`, 0),
    '',
    `Usage: sluice ${name} ACTION [options]`,
    section('Actions', summariesOf(actions)),
    `\nRun 'sluice ${name} ACTION --help' for the options of an action.`,
  ].join('\n');
}

function commandHelp(name: string, command: Command): string {
  const options = Object.entries({ ...command.options, help: helpOption });
  const parts = [
    wrapped(`${command.summary}.`, 0),
    '',
    usageOf(name, command),
    section(
      'Options',
      options.map(([option, declared]) => [formOf(option, declared), descriptionOf(declared)]),
    ),
    section('Environment', Object.entries(command.variables ?? {})),
    section('Exit codes', exitsOf(command)),
  ];
  return parts.filter((part, at) => at === 1 || part !== '').join('\n');
}

function summariesOf(nodes: Readonly<Record<string, CommandNode>>): [string, string][] {
  return Object.entries(nodes).map(([name, { summary }]) => [name, summary]);
}

/** Returns a title and its rows; empty without rows. A long term gets its own line. */
function section(title: string, rows: readonly (readonly [string, string])[]): string {
  if (rows.length === 0) return '';
  const short = rows.map(([term]) => term.length).filter(length => length <= widestTerm);
  const indent = 2 + Math.max(0, ...short) + 2;
  const lines = rows.map(([term, description]) => {
    const start = `  ${term}`;
    if (term.length > widestTerm)
      return `${start}\n${wrapped(' '.repeat(indent) + description, indent)}`;
    return wrapped(start.padEnd(indent) + description, indent);
  });
  return [`\n${title}:`, ...lines].join('\n');
}

/** Breaks a line between words; further lines begin with the indent. */
function wrapped(line: string, indent: number): string {
  if (line.length <= columns) return line;
  const end = line.lastIndexOf(' ', columns);
  // A word that is wider than the page stays whole.
  const at = end > indent ? end : line.indexOf(' ', columns);
  if (at < 0) return line;
  return `${line.slice(0, at)}\n${wrapped(' '.repeat(indent) + line.slice(at + 1), indent)}`;
}
