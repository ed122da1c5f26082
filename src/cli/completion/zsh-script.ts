import type { Completion } from '../command/command.ts';
import { placeWords, valueCases } from './case-patterns.ts';
import { type Place, type PlaceOption, quoted, spellingsOf } from './word-places.ts';

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
${valueCases(places, replyOf).join('\n')}
  esac
  local -a entries
  case "$place" in
${places.map(placeCase).join('\n')}
  esac
}
compdef _sluice sluice
`;
}

function placeCase({ words, next, options, completes }: Place): string {
  const others =
    next.length > 0
      ? `entries=(${next.map(described).join(' ')}); _describe command entries`
      : replyOf(completes);
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

function replyOf(completes: Completion | undefined): string {
  if (completes === undefined) return ':';
  if (typeof completes === 'string') return completes === 'file' ? '_files' : '_files -/';
  return `compadd -- ${completes.map(quoted).join(' ')}`;
}
