import type { ListedEntry } from '../records/listed-entry.ts';
import type { PlacedEntry } from './layer-heads.ts';

/**
 * What a layer does to a path of the layers below. `again`: the same file is stored once more. `attributes`: only its mode,
 * its owner or its capabilities differ. `kept`: a directory that is there already.
 */
export const layerChanges = ['kept', 'added', 'changed', 'attributes', 'again', 'removed'] as const;

export type LayerChange = (typeof layerChanges)[number];

/** Returns what an entry does to the one below it. */
export function changeOf(entry: ListedEntry, before: PlacedEntry | undefined): LayerChange {
  const other = before?.entry;
  if (!other) return 'added';
  if (entry.kind !== other.kind || !hasSameContent(entry, other)) return 'changed';
  const isSame =
    entry.mode === other.mode &&
    entry.uid === other.uid &&
    entry.gid === other.gid &&
    entry.hasCapabilities === other.hasCapabilities;
  if (!isSame) return 'attributes';
  return entry.kind === 'directory' ? 'kept' : 'again';
}

function hasSameContent(entry: ListedEntry, other: ListedEntry): boolean {
  return entry.size === other.size && entry.hash === other.hash && entry.link === other.link;
}
