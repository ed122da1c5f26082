import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Describes all that is in a directory, by its path: kind, mode, time, target of a link or digest of a file, and the
 * first path of those that are hard links of one file. Directories have no time.
 *
 * @param timeOf returns the text for a time, given in seconds since the epoch
 */
export function treeOf(root: string, timeOf: (seconds: number) => number): Record<string, string> {
  const tree: Record<string, string> = {};
  const firsts = new Map<number, string>();
  const names = namesIn(root);
  for (const name of names.toSorted()) {
    const path = join(root, name);
    const stat = lstatSync(path);
    const time = timeOf(stat.mtimeMs / 1000);
    const mode = (stat.mode & 0o7777).toString(8);
    if (stat.isDirectory()) tree[name] = `directory ${mode}`;
    else if (stat.isSymbolicLink()) tree[name] = `link ${time} ${readlinkSync(path)}`;
    else {
      const digest = createHash('sha256').update(readFileSync(path)).digest('hex');
      const first = firsts.get(stat.ino) ?? name;
      firsts.set(stat.ino, first);
      tree[name] = `file ${mode} ${time} ${digest} ${first === name ? '' : first}`;
    }
  }
  return tree;
}

/** Returns the paths of all that is in a directory. Node's own recursive listing follows links to directories. */
function namesIn(root: string, below = ''): string[] {
  return readdirSync(join(root, below), { withFileTypes: true }).flatMap(entry => {
    const path = join(below, entry.name);
    return entry.isDirectory() ? [path, ...namesIn(root, path)] : [path];
  });
}
