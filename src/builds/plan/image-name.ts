import { formatReference, parseReference } from '../../oci/naming.ts';
import type { Tool } from '../recipe/recipe-kind.ts';
import { type BuildSource, sourceKindOf } from '../recipe/recipe-kinds.ts';

/** Strategy for naming the built image. Source: specification 2.1. */
export type NameStrategy = 'none' | 'tagPrefix' | 'imageSuffix';

export const defaultStrategy: NameStrategy = 'tagPrefix';

export interface NameParts {
  /** Target repository, without tag: `registry/path`. */
  readonly repository: string;
  readonly key: string;
  readonly source: BuildSource;
  /** Default: `tagPrefix`. */
  readonly strategy?: NameStrategy | undefined;
}

const maxTools = 5;
const maxWords = 80;
const maxRepository = 255;
const maxTag = 128;

/**
 * Returns `registry/repository:tag` of the built image: a valid reference, whatever the names of the packages. The same
 * source gets the same name, in whatever order its packages were given.
 *
 * - `none`: `<repository>:<key>`
 * - `tagPrefix`: `<repository>:<name>-<version>_<name>--<key>`
 * - `imageSuffix`: `<repository>/<name>_<name>:<key>`, with a single tool `<repository>/<name>:<version>--<key>`
 *
 * A Dockerfile and a lock file name no tools: their images are `<repository>:<key>`.
 * Throws {@link OciSyntaxError} for an invalid repository.
 */
export function imageName({ repository, key, source, strategy }: NameParts): string {
  const target = parseReference(repository);
  const tools = strategy === 'none' ? [] : sourceKindOf(source).tools(source);
  const tagRoom = Math.min(maxWords, maxTag - key.length - '--'.length);
  const name = (path: string, tag: string) =>
    formatReference({ registry: target.registry, repository: path, tag });
  if (strategy === 'imageSuffix') {
    const room = Math.min(maxWords, maxRepository - target.repository.length - 1);
    const suffix = joinedWords(
      shortened(tools).map(tool => pathWord(tool.name)),
      room,
    );
    const [only, ...others] = tools;
    const version = others.length === 0 ? joinedWords([tagWord(only?.version ?? '')], tagRoom) : '';
    const path = suffix === '' ? target.repository : `${target.repository}/${suffix}`;
    return name(path, version === '' || suffix === '' ? key : `${version}--${key}`);
  }
  const words = shortened(tools).map(({ name, version }) =>
    tagWord(version === undefined ? name : `${name}-${version}`),
  );
  const prefix = joinedWords(words, tagRoom);
  return name(target.repository, prefix === '' ? key : `${prefix}--${key}`);
}

/** Shortens a long list to its first names, and marks that it is shortened. */
function shortened(tools: readonly Tool[]): readonly Tool[] {
  if (tools.length <= maxTools) return tools;
  return [...tools.slice(0, maxTools - 1), { name: 'pruned' }];
}

/** Returns as many words as fit; the first is cut if even that is too long. */
function joinedWords(words: readonly string[], room: number): string {
  let joined = '';
  for (const word of words.filter(text => text !== '')) {
    const longer = joined === '' ? word : `${joined}_${word}`;
    if (longer.length > room)
      return joined === '' ? trimSeparators(word.slice(0, Math.max(0, room))) : joined;
    joined = longer;
  }
  return joined;
}

function tagWord(text: string): string {
  return trimSeparators(text.replace(/[^A-Za-z0-9_.-]+/g, '-'));
}

// A path component allows only single dots and underscores, between letters and digits.
function pathWord(text: string): string {
  const word = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, run => (run.length === 1 && '._-'.includes(run) ? run : '-'));
  return trimSeparators(word);
}

function trimSeparators(text: string): string {
  const characters = [...text];
  const isLetter = (character: string) => /[A-Za-z0-9]/.test(character);
  const start = characters.findIndex(isLetter);
  return start < 0 ? '' : characters.slice(start, characters.findLastIndex(isLetter) + 1).join('');
}
