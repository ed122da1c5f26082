import { newestFirst } from './version-order.ts';

/** A version of a package in one subdirectory of a channel. */
export interface FoundVersion {
  readonly version: string;
  /** Bytes of the archive of its newest build; undefined if the channel does not say. */
  readonly size: number | undefined;
}

// A version is a part of a request, so it has these characters only.
const plainVersion = /^[A-Za-z0-9_.!+]{1,100}$/;

/** Maximum number of versions that are shown. */
export const mostVersions = 40;

/**
 * Returns the newest versions in a shard, each once, newest first, and one more than are shown if there are more. Ignores
 * what is not a record. Only for a thread, see `newestFirst`.
 */
export function versionsIn(shard: unknown): readonly FoundVersion[] {
  const found = new Map<string, FoundVersion & { readonly made: number }>();
  const { removed } = membersOf(shard);
  const gone = new Set<unknown>(Array.isArray(removed) ? removed : []);
  for (const section of ['packages', 'packages.conda']) {
    for (const [fileName, record] of Object.entries(membersOf(membersOf(shard)[section]))) {
      if (gone.has(fileName)) continue;
      const { version, size, timestamp } = membersOf(record);
      if (typeof version !== 'string' || !plainVersion.test(version)) continue;
      const made = typeof timestamp === 'number' ? timestamp : 0;
      const known = found.get(version);
      if (known && known.made > made) continue;
      found.set(version, { version, size: typeof size === 'number' ? size : undefined, made });
    }
  }
  return newestFirst(found.keys())
    .slice(0, mostVersions + 1)
    .map(version => ({ version, size: found.get(version)?.size }));
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
