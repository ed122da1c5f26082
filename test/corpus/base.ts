import { readFile } from 'node:fs/promises';
import { type BusyboxArchitecture, requireBusybox } from '../world/tools.ts';
import { type Compression, type Entry, type Layer, layerOf } from './layer.ts';

const applets = ['sh', 'ash', 'echo', 'cat', 'ls', 'id', 'env', 'pwd', 'sleep', 'true', 'test'];
const made = new Map<string, Promise<Layer>>();

/** The smallest system that can run: a static busybox, a user, and a word on its architecture. */
export function baseLayer(
  architecture: BusyboxArchitecture = 'amd64',
  compression: Compression = 'gzip',
): Promise<Layer> {
  const key = `${architecture} ${compression}`;
  const known = made.get(key);
  if (known !== undefined) return known;
  const layer = baseEntries(architecture).then(entries => layerOf(entries, compression));
  made.set(key, layer);
  return layer;
}

/** A different small layer for each name. */
export function noteLayer(name: string, compression: Compression = 'gzip'): Promise<Layer> {
  return layerOf(
    [{ name: 'notes/' }, { name: `notes/${name}`, content: `${name}\n` }],
    compression,
  );
}

async function baseEntries(architecture: BusyboxArchitecture): Promise<Entry[]> {
  const passwd = ['root:x:0:0:root:/:/bin/sh', 'user:x:1000:1000:user:/home/user:/bin/sh'];
  return [
    { name: 'bin/' },
    { name: 'bin/busybox', content: await readFile(requireBusybox(architecture)), mode: 0o755 },
    ...applets.map(name => ({ name: `bin/${name}`, link: 'busybox' })),
    { name: 'etc/' },
    { name: 'etc/arch', content: `${architecture}\n` },
    { name: 'etc/passwd', content: `${passwd.join('\n')}\n` },
    { name: 'etc/group', content: 'root:x:0:\nuser:x:1000:\n' },
    { name: 'home/' },
    { name: 'home/user/', uid: 1000 },
    { name: 'tmp/', mode: 0o1777 },
  ];
}
