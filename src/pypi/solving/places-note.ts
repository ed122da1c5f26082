import { defaultIndex } from '../indexes/index-access.ts';
import type { OpenedIndex } from '../indexes/loopback-index.ts';

interface Places {
  readonly opened: Pick<OpenedIndex, 'indexOf' | 'indexes'>;
  /** Base URLs in the order of the request. */
  readonly indexes: readonly string[];
}

/**
 * Returns what an explanation of uv leaves out, since it knows one index alone: which one has answered for a name, and that a version is
 * of another one. Starts with a space; empty where there is nothing to say.
 */
export function placesNote(problem: string, places: Places): string {
  const { opened, indexes } = places;
  if (indexes.length < 2) return indexes[0] === defaultIndex ? localVersionNote(problem) : '';
  const words = new Set(problem.toLowerCase().split(/[^a-z0-9._-]+/));
  const found = new Set(
    [...words].flatMap(name => {
      const index = opened.indexOf(name);
      return index === undefined ? [] : [`${name} at ${index}`];
    }),
  );
  if (found.size === 0) return '';
  const list = [...found].sort().slice(0, mostPlaces).join(', ');
  return ` The first index that has a name is the only one for it: ${list}. ${remedy(places)}`;
}

const mostPlaces = 10;

/** pip would have compared the versions of all. */
function remedy({ opened, indexes }: Places): string {
  const first = indexes[0];
  if (first === undefined || opened.indexes[0] === first) {
    return 'Leave out that index, or name versions that it has.';
  }
  return `Those that the operator has listed in 'pypi' come first: name versions that they have, or ask the operator to list ${first}, too.`;
}

const localVersion =
  /there is no version of ([A-Za-z0-9._-]{1,200})={2,3}([A-Za-z0-9.!]{1,100})\+([A-Za-z0-9._-]{1,100})/;

/** The public index takes no such versions, and an export of an environment does not say where they are from. */
function localVersionNote(problem: string): string {
  const [, name, version, label = ''] = localVersion.exec(problem) ?? [];
  if (name === undefined) return '';
  const ofTorch = ofTorchIndex.test(label)
    ? ` (for PyTorch '--extra-index-url https://download.pytorch.org/whl/${label}')`
    : '';
  return ` The public index has no versions with '+': add the index that has this one with '--extra-index-url'${ofTorch}, or ask for ${name}==${version}.`;
}

const ofTorchIndex = /^(?:cpu|cu\d{2,3}|rocm\d[\d.]{0,6}|xpu)$/;
