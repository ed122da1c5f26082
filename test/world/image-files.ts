import { execFile } from 'node:child_process';
import { createWriteStream, lstatSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type BuildOptions, build, connect, directoryTree } from '../../src/buildkit/index.ts';
import { copyPackages } from './debian-files.ts';
import { makeTempDir } from './temp-dir.ts';
import { buildkitDirectory, requireCommand } from './tools.ts';

/** Builds an image into a file that `docker load` takes. */
export async function buildImageFile(
  builder: string,
  options: Omit<BuildOptions, 'exporters'>,
  name: string,
  file: string,
): Promise<void> {
  const client = connect(builder);
  try {
    const sink = () => createWriteStream(file);
    // Nobody keeps the file for long.
    const attrs = { compression: 'uncompressed' };
    await build(client, { ...options, exporters: [{ type: 'docker', name, sink, attrs }] });
  } finally {
    client.close();
  }
}

/**
 * Builds the project's own Dockerfile, on a base that stands in for that of Docker Hub.
 *
 * @param base where the base is, as `pushNodeImage` pushed it
 */
export async function makeSluiceImage(builder: string, base: string, name: string, file: string) {
  const dockerfile = await readFile(join(project, 'Dockerfile'), 'utf8');
  const [, named = ''] = /^ARG NODE_IMAGE=(\S+)/m.exec(dockerfile) ?? [];
  const namedContexts = { [named]: `docker-image://${base}` };
  await buildImageFile(
    builder,
    { dockerfile, context: directoryTree(project), namedContexts },
    name,
    file,
  );
}

const project = fileURLToPath(new URL('../..', import.meta.url));

/** The image of BuildKit that the project's files for Docker name. */
export async function buildkitImageName(): Promise<string> {
  const text = await readFile(join(project, 'builder/service.yaml'), 'utf8');
  const [, name = ''] = /image: \$\{SLUICE_BUILDKIT_IMAGE:-([^}]+)\}/.exec(text) ?? [];
  return name;
}

/**
 * Makes an image with what that of BuildKit has: buildkitd and its runc, the plugins for networks, iptables,
 * and busybox in place of all else, as in Alpine. All of it is of Debian, but BuildKit.
 * Source: Dockerfile of BuildKit 0.34, stages `binaries-linux` and `buildkit-linux`.
 */
export async function makeBuildkitImage(builder: string, name: string, file: string) {
  await using files = await makeTempDir('buildkit-image');
  const into = files.path;
  await copyBusybox(into, ['containernetworking-plugins', 'iptables', 'runc'], iptablesLinks);
  const programs = await copyBuildkit(into);
  for (const plugin of ['bridge', 'loopback', 'host-local', 'firewall']) {
    await symlink(`../lib/cni/${plugin}`, join(programs, `buildkit-cni-${plugin}`));
  }
  const entrypoint = join(programs, 'buildkitd-entrypoint');
  await writeFile(entrypoint, '#!/bin/sh\nexec /usr/bin/buildkitd "$@"\n', { mode: 0o755 });
  await mkdir(join(into, 'var/lib/buildkit'), { recursive: true });
  const dockerfile =
    'FROM scratch\nCOPY . /\nENTRYPOINT ["/usr/bin/buildkitd-entrypoint"]\nVOLUME /var/lib/buildkit\n';
  await buildImageFile(builder, { dockerfile, context: directoryTree(into) }, name, file);
}

/** Copies buildkitd and buildctl, and links runc by the name that buildkitd looks for; returns the folder of programs. */
export async function copyBuildkit(into: string): Promise<string> {
  const programs = join(into, 'usr/bin');
  for (const program of ['buildkitd', 'buildctl']) {
    const path = requireCommand(join(buildkitDirectory(), program));
    await copyFile(path, join(programs, program));
    await chmod(join(programs, program), 0o755);
  }
  await symlink('../sbin/runc', join(programs, 'buildkit-runc'));
  return programs;
}

/** Makes an image of busybox, which has all commands that it knows. */
export async function makeBusyboxImage(builder: string, name: string, file: string) {
  await using files = await makeTempDir('busybox-image');
  await copyBusybox(files.path, []);
  const dockerfile = 'FROM scratch\nCOPY . /\nCMD ["sh"]\n';
  await buildImageFile(builder, { dockerfile, context: directoryTree(files.path) }, name, file);
}

/** Copies a system of busybox and other packages into the directory of an image. */
export async function copyBusybox(
  into: string,
  packages: readonly string[],
  besides: readonly string[] = [],
): Promise<void> {
  const wanted = ['busybox', 'ca-certificates', ...packages];
  await copyPackages(into, { suite: 'forky', packages: wanted, besides, essential: false });
  // It needs the libraries beside it.
  const { stdout } = await promisify(execFile)('chroot', [into, '/usr/bin/busybox', '--list']);
  for (const applet of stdout.split('\n').filter(Boolean)) {
    const places = ['bin', 'sbin'].map(folder => join(into, 'usr', folder, applet));
    const isThere = (path: string) => lstatSync(path, { throwIfNoEntry: false }) !== undefined;
    if (!places.some(isThere)) await symlink('busybox', places[0] ?? '');
  }
  for (const folder of ['etc', 'root', 'run', 'tmp']) {
    await mkdir(join(into, folder), { recursive: true });
  }
  await writeFile(join(into, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
  await writeFile(join(into, 'etc/group'), 'root:x:0:\n');
}

const iptablesLinks = ['iptables', 'ip6tables'].flatMap(kind =>
  ['', '-save', '-restore'].flatMap(end => [
    `etc/alternatives/${kind}${end}`,
    `usr/sbin/${kind}${end}`,
  ]),
);
