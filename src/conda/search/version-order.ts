import type { Version } from '@conda-org/rattler';
import { type LoadedRattler, loadRattler } from '../solving/load-rattler.ts';

const maxBytes = 64 * 1024 * 1024;

let loaded: LoadedRattler | undefined;

/**
 * Returns versions in the order of conda, newest first, without those that it cannot read. Loading the library takes
 * some 40 ms: only for a thread.
 */
export function newestFirst(versions: Iterable<string>): string[] {
  loaded ??= loadRattler(maxBytes);
  const { rattler } = loaded;
  const readable: { readonly text: string; readonly version: Version }[] = [];
  for (const text of versions) {
    try {
      readable.push({ text, version: new rattler.Version(text) });
    } catch {
      // The solver cannot read it either.
    }
  }
  readable.sort((one, other) => other.version.compare(one.version));
  for (const { version } of readable) version.free();
  return readable.map(({ text }) => text);
}
