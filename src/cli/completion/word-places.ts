import { type CommandNode, type Completion, isGroup } from '../command/command.ts';
import { helpOption } from '../command/help.ts';

/** A position on the command line: after `sluice`, after a command, or after an action. */
export interface Place {
  /** The words before the position, without `sluice`. */
  readonly words: readonly string[];
  /** Commands or actions that may follow, with their summaries. */
  readonly next: readonly (readonly [name: string, summary: string])[];
  readonly options: readonly PlaceOption[];
  /** Completions of an argument. */
  readonly completes: Completion | undefined;
}

export interface PlaceOption {
  readonly name: string;
  readonly letter: string | undefined;
  readonly description: string;
  /** False for a flag. */
  readonly hasValue: boolean;
  readonly completes: Completion | undefined;
}

/** Returns all places of the command line, from the declarations of its commands. */
export function placesOf(commands: Readonly<Record<string, CommandNode>>): Place[] {
  const help: [string, string] = ['help', 'Show the help of a command'];
  const names = summariesOf(commands);
  return [
    {
      words: [],
      next: [...names, help],
      options: [
        ...optionsOf({ help: helpOption }),
        ...optionsOf({ version: { type: 'boolean', description: 'Print the version' } }),
      ],
      completes: undefined,
    },
    { words: ['help'], next: names, options: [], completes: undefined },
    ...Object.entries(commands).flatMap(([name, node]) => placesAt([name], node)),
  ];
}

/** Returns `<place> <word>` for each word that leads to another place. */
export function wordsWithPlace(places: readonly Place[]): string[] {
  return places
    .filter(({ words }) => words.length > 0)
    .map(({ words }) => `${words.slice(0, -1).join(' ')} ${words.at(-1)}`);
}

function placesAt(words: readonly string[], node: CommandNode): Place[] {
  if (isGroup(node)) {
    const own: Place = {
      words,
      next: summariesOf(node.actions),
      options: optionsOf({ help: helpOption }),
      completes: undefined,
    };
    const actions = Object.entries(node.actions);
    return [own, ...actions.flatMap(([name, action]) => placesAt([...words, name], action))];
  }
  const options = optionsOf({ ...node.options, help: helpOption });
  return [{ words, next: [], options, completes: node.completes }];
}

function summariesOf(nodes: Readonly<Record<string, CommandNode>>): [string, string][] {
  return Object.entries(nodes).map(([name, { summary }]) => [name, summary]);
}

type Declared = Extract<CommandNode, { options: unknown }>['options'];

function optionsOf(options: Declared): PlaceOption[] {
  return Object.entries(options).map(([name, { short, type, description, completes }]) => ({
    name,
    letter: short,
    // A shell shows a description on one line.
    description: description.split('. ')[0] ?? '',
    hasValue: type === 'string',
    completes,
  }));
}

/** Returns the written forms of an option: `--file`, and `-f` when it has a letter. */
export function spellingsOf({ name, letter }: PlaceOption): string[] {
  return [`--${name}`, ...(letter === undefined ? [] : [`-${letter}`])];
}

/** Returns a word in single quotes, as all three shells read it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
