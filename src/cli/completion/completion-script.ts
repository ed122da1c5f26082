import { type CommandNode, type Completion, isGroup } from '../command/command.ts';
import { helpOption } from '../command/run-command-line.ts';

/** Returns the completion script for bash. */
export function bashScript(places: readonly Place[]): string {
  return `# bash completion for sluice: source <(sluice completion bash)
_sluice() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} place= word
  COMPREPLY=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$place $word" in
      ${placeWords(places)}) place="\${place:+$place }$word" ;;
    esac
  done
  case "$place $previous" in
${valueCases(places, bashReply).join('\n')}
  esac
  case "$place" in
${places.map(bashCase).join('\n')}
  esac
}
complete -F _sluice sluice
`;
}

function bashCase({ words, next, options, completes }: Place): string {
  const names = options.flatMap(spellingsOf).join(' ');
  const others = next.length > 0 ? next.map(([name]) => name) : completes;
  return `    ${quoted(words.join(' '))})
      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W ${quoted(names)} -- "$current"))
      else ${bashReply(others)}; fi ;;`;
}

function bashReply(completes: Completion | undefined): string {
  if (completes === undefined) return ':';
  if (typeof completes === 'string') {
    return `compopt -o filenames; COMPREPLY=($(compgen ${completes === 'file' ? '-f' : '-d'} -- "$current"))`;
  }
  return `COMPREPLY=($(compgen -W ${quoted(completes.join(' '))} -- "$current"))`;
}

/** Returns the completion script for zsh. */
export function zshScript(places: readonly Place[]): string {
  return `#compdef sluice
# zsh completion for sluice: source <(sluice completion zsh)
_sluice() {
  local place= word previous=\${words[CURRENT-1]}
  for word in \${words[2,CURRENT-1]}; do
    case "$place $word" in
      ${placeWords(places)}) place="\${place:+$place }$word" ;;
    esac
  done
  case "$place $previous" in
${valueCases(places, zshReply).join('\n')}
  esac
  local -a entries
  case "$place" in
${places.map(zshCase).join('\n')}
  esac
}
compdef _sluice sluice
`;
}

function zshCase({ words, next, options, completes }: Place): string {
  const others =
    next.length > 0
      ? `entries=(${next.map(described).join(' ')}); _describe command entries`
      : zshReply(completes);
  return `    ${quoted(words.join(' '))})
      if [[ $PREFIX == -* ]]; then
        entries=(${options.flatMap(optionEntries).join(' ')}); _describe -o option entries
      else ${others}; fi ;;`;
}

function optionEntries(option: PlaceOption): string[] {
  return spellingsOf(option).map(name => described([name, option.description]));
}

/** Returns `name:description`; a colon in the name is escaped. */
function described([name, description]: readonly [string, string]): string {
  return quoted(`${name.replaceAll(':', String.raw`\:`)}:${description}`);
}

function zshReply(completes: Completion | undefined): string {
  if (completes === undefined) return ':';
  if (typeof completes === 'string') return completes === 'file' ? '_files' : '_files -/';
  return `compadd -- ${completes.map(quoted).join(' ')}`;
}

/** Returns the completion script for fish. */
export function fishScript(places: readonly Place[]): string {
  return `# fish completion for sluice: sluice completion fish | source
function __sluice_at
  set -l place
  for word in (commandline -opc)[2..-1]
    if contains -- "$place $word" ${wordsWithPlace(places).map(quoted).join(' ')}
      set place (string trim -- "$place $word")
    end
  end
  test "$place" = "$argv[1]"
end
complete -c sluice -e
complete -c sluice -f
${places.flatMap(linesOf).join('\n')}
`;
}

function linesOf({ words, next, options, completes }: Place): string[] {
  const start = `complete -c sluice -n ${quoted(`__sluice_at "${words.join(' ')}"`)}`;
  return [
    ...next.map(([name, summary]) => `${start} -a ${quoted(name)} -d ${quoted(summary)}`),
    ...(completes === undefined ? [] : [`${start} ${valuesOf(completes)}`]),
    ...options.map(option => `${start} ${optionOf(option)}`),
  ];
}

function optionOf({ name, letter, description, hasValue, completes }: PlaceOption): string {
  const short = letter === undefined ? '' : ` -s ${letter}`;
  const value = completes === undefined ? '-f' : valuesOf(completes);
  return `-l ${name}${short}${hasValue ? ` -r ${value}` : ''} -d ${quoted(description)}`;
}

function valuesOf(completes: Completion): string {
  if (completes === 'file') return '-F';
  if (completes === 'directory') return "-f -a '(__fish_complete_directories (commandline -ct))'";
  return `-f -a ${quoted(completes.join(' '))}`;
}

/** Returns the pattern of a shell's `case` that matches the words that lead to another place. */
function placeWords(places: readonly Place[]): string {
  return wordsWithPlace(places).map(quoted).join(' | ');
}

/**
 * Returns the branches of a shell's `case` on `<place> <previous word>`, one for each option with a value.
 *
 * @param replyOf returns the commands of the shell that offer values
 */
function valueCases(
  places: readonly Place[],
  replyOf: (completes: Completion | undefined) => string,
): string[] {
  return places.flatMap(({ words, options }) =>
    options
      .filter(({ hasValue }) => hasValue)
      .map(option => {
        const patterns = spellingsOf(option).map(name => quoted(`${words.join(' ')} ${name}`));
        return `    ${patterns.join(' | ')}) ${replyOf(option.completes)}; return ;;`;
      }),
  );
}

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

interface PlaceOption {
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
function wordsWithPlace(places: readonly Place[]): string[] {
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
function spellingsOf({ name, letter }: PlaceOption): string[] {
  return [`--${name}`, ...(letter === undefined ? [] : [`-${letter}`])];
}

/** Returns a word in single quotes, as all three shells read it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
