import { execFileSync } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build, connect, directoryTree } from '../../src/buildkit/index.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

/** Puts OpenSSH's client and its libraries, as this machine has them, on top of an image with a shell, and pushes it. */
export async function pushSshImage(
  builder: string,
  base: string,
  reference: string,
): Promise<void> {
  await using files = await makeTempDir('ssh-image');
  const programs = ['ssh', 'ssh-add'].map(requireCommand);
  const libraries = execFileSync('ldd', programs, { encoding: 'utf8' }).matchAll(/(\/\S+) \(0x/g);
  for (const path of [...programs, ...[...libraries].map(([, path = '']) => path)]) {
    await mkdir(join(files.path, dirname(path)), { recursive: true });
    await copyFile(path, join(files.path, path));
  }
  await mkdir(files.join('etc'), { recursive: true });
  // The client asks for the name of its user.
  await writeFile(files.join('etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
  const client = connect(builder);
  try {
    await build(client, {
      dockerfile: `FROM ${base}\nCOPY . /\n`,
      context: directoryTree(files.path),
      exporters: [{ type: 'image', name: reference, push: true }],
    });
  } finally {
    client.close();
  }
}
