import { readFileSync, realpathSync, statfsSync } from 'node:fs';
import { Fault } from '../../foundation/fault.ts';

/**
 * File systems of networks by the type that statfs(2) reports. Other machines can use them too, and not all of them have the
 * locks and the shared memory that SQLite requires (https://sqlite.org/wal.html#concurrency), or bring a file to a disk when fsync
 * returns. Those of clusters, such as Ceph and Lustre, have both. 9P is absent because sandboxes and virtual machines show local
 * disks by it. Source: Linux, include/uapi/linux/magic.h; statfs(2).
 */
const networkTypes: Readonly<Record<number, string>> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'SMB',
  4266872130: 'SMB',
  1397113167: 'AFS',
  1799439955: 'AFS',
  1937076805: 'Coda',
};

const overlayType = 0x794c7630;
// As older and newer versions of Linux show the same option.
const neverSyncs = ['volatile', 'fsync=volatile'];

/** What is read of a directory. */
interface FileSystemFacts {
  /** As statfs(2) reports it. */
  readonly type: number;
  /** The text of `/proc/self/mountinfo`. */
  readonly mounts: string;
  /** The directory, without symbolic links. */
  readonly path: string;
}

/** Throws a {@link Fault} for a data directory on a file system that may lose what was acknowledged. */
export function requireSafeFileSystem(directory: string): void {
  const why = unsafeFileSystem({
    type: statfsSync(directory).type,
    path: realpathSync(directory),
    get mounts() {
      return readMounts();
    },
  });
  if (why === undefined) return;
  throw new Fault(
    'unavailable',
    `The data directory ${directory} is on ${why}: name a directory on a local disk with SLUICE_DATA, or accept this with SLUICE_DISK_ANY_FILE_SYSTEM=true`,
    { phase: 'store' },
  );
}

/** Returns what is unsafe about the file system of a directory, such as `NFS, ...`; undefined for one that is safe. */
export function unsafeFileSystem(facts: FileSystemFacts): string | undefined {
  // Some types have the highest bit, which a platform may report as a sign.
  const type = facts.type >>> 0;
  const network = networkTypes[type];
  if (network !== undefined) {
    return `${network}, a file system of a network, where locks and fsync may not hold`;
  }
  if (type === overlayType && optionsOf(facts).some(option => neverSyncs.includes(option))) {
    return 'an overlay file system with the option volatile, which never brings files to the disk';
  }
  return undefined;
}

/** Returns the options of the file system that the path is on. Source: proc_pid_mountinfo(5). */
function optionsOf({ mounts, path }: FileSystemFacts): readonly string[] {
  let found = { point: '', options: '' };
  for (const line of mounts.split('\n')) {
    const [mount = '', filesystem = ''] = line.split(' - ');
    const point = unescaped(mount.split(' ')[4] ?? '');
    const isAbove = path === point || path.startsWith(point.endsWith('/') ? point : `${point}/`);
    // A later mount hides an earlier one at the same place.
    if (!isAbove || point === '' || point.length < found.point.length) continue;
    found = { point, options: filesystem.split(' ')[2] ?? '' };
  }
  return found.options.split(',');
}

const unescaped = (text: string) =>
  text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );

function readMounts(): string {
  try {
    return readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    // Other systems have no overlay file systems.
    return '';
  }
}
