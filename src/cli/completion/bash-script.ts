import type { Completion } from '../command/command.ts';
import { type Place, quoted, spellingsOf } from './word-places.ts';

/** Returns the completion script for bash. */
export function bashScript(places: readonly Place[]): string {
  return `# bash completion for sluice: source <(sluice completion bash)
_sluice() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} place= word
  COMPREPLY=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$place $word" in
      ${wordsWithPlace(places).map(quoted).join(' | ')}) place="\${place:+$place }$word" ;;
    esac
  done
  case "$place $previous" in
${places.flatMap(valueCases).join('\n')}
  esac
  case "$place" in
${places.map(placeCase).join('\n')}
  esac
}
complete -F _sluice sluice
`;
}

/** Returns `<place> <word>` for each word that leads to another place. */
export function wordsWithPlace(places: readonly Place[]): string[] {
  return places
    .filter(({ words }) => words.length > 0)
    .map(({ words }) => `${words.slice(0, -1).join(' ')} ${words.at(-1)}`);
}

function valueCases({ words, options }: Place): string[] {
  return options
    .filter(({ hasValue }) => hasValue)
    .map(option => {
      const patterns = spellingsOf(option).map(name => quoted(`${words.join(' ')} ${name}`));
      return `    ${patterns.join(' | ')}) ${replyOf(option.completes)}; return ;;`;
    });
}

function placeCase({ words, next, options, completes }: Place): string {
  const names = options.flatMap(spellingsOf).join(' ');
  const others = next.length > 0 ? next.map(([name]) => name) : completes;
  return `    ${quoted(words.join(' '))})
      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W ${quoted(names)} -- "$current"))
      else ${replyOf(others)}; fi ;;`;
}

function replyOf(completes: Completion | undefined): string {
  if (completes === undefined) return ':';
  if (typeof completes === 'string') {
    return `compopt -o filenames; COMPREPLY=($(compgen ${completes === 'file' ? '-f' : '-d'} -- "$current"))`;
  }
  return `COMPREPLY=($(compgen -W ${quoted(completes.join(' '))} -- "$current"))`;
}
