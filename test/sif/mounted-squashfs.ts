import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

/** A squashfs that the kernel reads. It is unmounted when it is disposed of. */
export interface MountedSquashfs extends AsyncDisposable {
  /** The root directory. */
  readonly path: string;
}

/**
 * Mounts a squashfs. Throws an `Error` unless the user is root: the kernel mounts files for nobody else.
 *
 * @param offset where it begins in the file
 */
export async function mountSquashfs(file: string, offset: number): Promise<MountedSquashfs> {
  if (process.getuid?.() !== 0) {
    throw new Error(
      "Only root can mount a squashfs: run the test as root, with 'sudo --preserve-env=PATH'",
    );
  }
  const [mount, umount] = [requireCommand('mount'), requireCommand('umount')];
  const directory = await makeTempDir('mounted');
  const path = directory.join('root');
  await mkdir(path);
  try {
    execFileSync(mount, ['-t', 'squashfs', '-o', `loop,ro,offset=${offset}`, file, path]);
  } catch (error) {
    await directory.remove();
    throw error;
  }
  return {
    path,
    async [Symbol.asyncDispose]() {
      execFileSync(umount, [path]);
      await directory.remove();
    },
  };
}

const readAttributes = `
import json, os, sys
paths = json.load(sys.stdin)
print(json.dumps([{n: os.getxattr(p, n).decode('latin1') for n in os.listxattr(p)} for p in paths]))
`;

/** Returns the extended attributes of files, one character per byte. */
export function attributesOf(paths: readonly string[]): Record<string, string>[] {
  const input = JSON.stringify(paths);
  const python = requireCommand('python3');
  return JSON.parse(execFileSync(python, ['-c', readAttributes], { input }).toString());
}
