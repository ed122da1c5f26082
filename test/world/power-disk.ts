import { execFile } from 'node:child_process';
import { chmod, mkdir, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { diskFolder, makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

const run = promisify(execFile);

const outerBytes = '4G';
const innerBytes = '512M';
const makeOptions = {
  ext4: ['-E', 'lazy_itable_init=0'],
  // Sectors as large as those of the disk below.
  xfs: ['-s', 'size=4096'],
};

/**
 * A disk whose power can be cut at any moment: `path` is a directory on a file system in a file that the kernel
 * writes to without a cache. A copy of that file is the disk of a machine without power. Requires root.
 */
export interface PowerDisk extends AsyncDisposable {
  readonly path: string;
  /** What is on the disk now, at one point in time: the copy shares the blocks of the original. */
  copy(): Promise<DiskCopy>;
}

export interface DiskCopy {
  /** Mounts it, as the next start of the machine would; gone when it is disposed of. */
  open(): Promise<{ readonly path: string } & AsyncDisposable>;
}

/** A file system, and the options of its mount. */
export interface PowerFileSystem {
  readonly type: 'ext4' | 'xfs';
  readonly options?: string;
}

export async function makePowerDisk(
  { type, options = 'defaults' }: PowerFileSystem = { type: 'ext4' },
): Promise<PowerDisk> {
  const directory = await makeTempDir('power', diskFolder());
  // PostgreSQL runs as another user.
  await chmod(directory.path, 0o711);
  const folder = async (name: string) => {
    const path = directory.join(name);
    await mkdir(path);
    return path;
  };
  // XFS can copy a file by reference, and does so between two writes to it.
  const outer = directory.join('outer.img');
  await run('truncate', ['-s', outerBytes, outer]);
  await run(requireCommand('mkfs.xfs'), ['-q', '-m', 'reflink=1', outer]);
  const copies = await folder('copies');
  const disks = [await mount(outer, copies)];
  const inner = `${copies}/disk.img`;
  await run('truncate', ['-s', innerBytes, inner]);
  await run(requireCommand(`mkfs.${type}`), ['-q', ...makeOptions[type], inner]);
  const path = await folder('disk');
  disks.unshift(await mount(inner, path, options));

  let count = 0;
  return {
    path,
    async copy() {
      const image = `${copies}/copy-${++count}.img`;
      await run('cp', ['--reflink=always', inner, image]);
      return {
        async open() {
          const opened = directory.join(`opened-${image.replace(/\D+/g, '')}`);
          await mkdir(opened);
          // XFS refuses to mount a file system and its copy at once.
          const mounted = await mount(image, opened, type === 'xfs' ? 'nouuid' : 'defaults');
          return {
            path: opened,
            async [Symbol.asyncDispose]() {
              await mounted[Symbol.asyncDispose]();
              await rm(image);
            },
          };
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const disk of disks) await disk[Symbol.asyncDispose]();
      await directory.remove();
    },
  };
}

/** Mounts the file system in a file, with every write going to the file at once. */
async function mount(file: string, path: string, options = 'defaults'): Promise<AsyncDisposable> {
  const losetup = requireCommand('losetup');
  const { stdout } = await run(losetup, ['--find', '--show', '--direct-io=on', file]);
  const device = stdout.trim();
  try {
    await run('mount', ['-o', options, device, path]);
  } finally {
    // It is removed with the mount, however this process ends.
    await run(losetup, ['--detach', device]);
  }
  return {
    async [Symbol.asyncDispose]() {
      // A container that was started meanwhile has a copy of the mount, which may keep it busy for long.
      await run('umount', ['--lazy', path]);
    },
  };
}
