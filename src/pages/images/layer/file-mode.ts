import type { StoredNode } from '../../../images/listing/records/tree-file.ts';

const kinds: Readonly<Record<StoredNode['kind'], string>> = {
  file: '-',
  link: '-',
  directory: 'd',
  symlink: 'l',
  fifo: 'p',
  'character-device': 'c',
  'block-device': 'b',
  whiteout: '-',
};

/** Returns a mode as `ls -l` shows it. */
export function modeText({ kind, mode }: Pick<StoredNode, 'kind' | 'mode'>): string {
  const triple = (shift: number, special: boolean, mark: string): string => {
    const bits = (mode >> shift) & 7;
    const runs = (bits & 1) !== 0;
    const last = special ? (runs ? mark : mark.toUpperCase()) : runs ? 'x' : '-';
    return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${last}`;
  };
  const owner = triple(6, (mode & 0o4000) !== 0, 's');
  const group = triple(3, (mode & 0o2000) !== 0, 's');
  return `${kinds[kind]}${owner}${group}${triple(0, (mode & 0o1000) !== 0, 't')}`;
}

/** Returns the extra rights that a program has whoever starts it. */
export function rightsIn({
  kind,
  mode,
  hasCapabilities,
}: Pick<StoredNode, 'kind' | 'mode' | 'hasCapabilities'>): readonly string[] {
  if (kind !== 'file' && kind !== 'link') return [];
  return [
    ...(mode & 0o4000 ? ['setuid'] : []),
    ...(mode & 0o2000 ? ['setgid'] : []),
    ...(hasCapabilities ? ['capabilities'] : []),
  ];
}
