import { execFileSync } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build, connect, directoryTree } from '../../src/buildkit/index.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

/** Copies OpenSSH's client and its libraries, as this machine has them, into the directory of an image. */
export async function copySshClient(into: string): Promise<void> {
  for (const name of ['ssh', 'ssh-add']) {
    const program = requireCommand(name);
    const libraries = execFileSync('ldd', [program], { encoding: 'utf8' }).matchAll(
      /(\/\S+) \(0x/g,
    );
    const files = [...libraries].map(([, path = '']) => [path, path] as const);
    for (const [from, path] of [[program, `/usr/bin/${name}`] as const, ...files]) {
      await mkdir(join(into, dirname(path)), { recursive: true });
      await copyFile(from, join(into, path));
    }
  }
  await mkdir(join(into, 'etc'), { recursive: true });
  // The client asks for the name of its user.
  await writeFile(join(into, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
}

/** Puts OpenSSH's client on top of an image with a shell, and pushes it. */
export async function pushSshImage(
  builder: string,
  base: string,
  reference: string,
): Promise<void> {
  await using files = await makeTempDir('ssh-image');
  await copySshClient(files.path);
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
