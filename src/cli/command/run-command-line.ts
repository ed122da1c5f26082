import { parseArgs } from 'node:util';
import { readVersion } from '../../foundation/version.ts';
import { nearestName } from '../../http/errors/nearest-name.ts';
import {
  type Command,
  CommandError,
  type CommandNode,
  type Commands,
  isGroup,
  UsageError,
  type Values,
} from './command.ts';
import { helpOf, helpOption, overviewOf, usageOf } from './help.ts';
import { wakeThreads } from './wake-threads.ts';

/** Runs `sluice` with these words and returns the exit code. */
export async function runCommandLine(
  words: readonly string[],
  commands: Commands,
): Promise<number> {
  const [name = 'help', ...rest] = words;
  try {
    if (name === '--version') return show(readVersion().version);
    if (name === 'help' && rest.length > 0)
      return await runCommandLine([...rest, '--help'], commands);
    if (['help', '--help', '-h'].includes(name)) return show(overviewOf(await loadAll(commands)));
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
      if (action === '--help' || action === '-h') return show(helpOf(name, node));
      if (action === undefined) throw new UsageError(`Missing action: ${actionsOf(node)}`);
      return await runNode(`${name} ${action}`, findNamed(node.actions, action, 'action'), rest);
    }
    const { values, args } = parseCommand(node, words);
    if (values.help) return show(helpOf(name, node));
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

function show(text: string): number {
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
    throw new UsageError(`${why}${suggestion(meant === undefined ? undefined : `--${meant}`)}`);
  }
}

/** Returns the command that a word names. Throws {@link UsageError} with the most similar name. */
function findNamed<T>(known: Readonly<Record<string, T>>, word: string, what: string): T {
  const found = Object.hasOwn(known, word) ? known[word] : undefined;
  if (found !== undefined) return found;
  const meant = nearestName(word, Object.keys(known));
  throw new UsageError(`Unknown ${what}: ${word}${suggestion(meant)}`);
}

function suggestion(meant: string | undefined): string {
  return meant === undefined ? '' : `. Did you mean ${meant}?`;
}
