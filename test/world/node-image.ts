import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import {
  appendFile,
  chmod,
  copyFile,
  cp,
  mkdir,
  realpath,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findProxy } from '../../scripts/tools/mirror.ts';
import { build, connect, directoryTree } from '../../src/buildkit/index.ts';
import { copyPackages } from './debian-files.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

// In addition to Debian's essential packages: those of Docker's image that builds use.
const packages = ['apt', 'libstdc++6', 'mawk'];

/**
 * Makes an image like Docker's `node:24-bookworm-slim` and pushes it: Debian's own files, this project's Node, and the
 * machine's npm. apt and npm reach the network as on this machine, without any token.
 */
export async function pushNodeImage(builder: string, reference: string): Promise<void> {
  await using files = await makeTempDir('node-image');
  await copyDebian(files.path);
  await copyNode(files.path);
  await configureNpm(files.path);
  const client = connect(builder);
  try {
    await build(client, {
      dockerfile: `FROM scratch\nCOPY . /\nENV PATH=${searchPath}\nCMD ["node"]\n`,
      context: directoryTree(files.path),
      exporters: [{ type: 'image', name: reference, push: true, compression: 'uncompressed' }],
    });
  } finally {
    client.close();
  }
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Debian's essential packages and apt, which goes the way of this machine. */
async function copyDebian(into: string): Promise<void> {
  await copyPackages(into, { suite: 'bookworm', packages, besides, essential: true });
  const proxy = await findProxy();
  if (proxy === undefined) return;
  await writeFile(join(into, 'etc/apt/apt.conf.d/95proxy'), `Acquire::http::Proxy "${proxy}";\n`);
}

// Files that no package contains, because its installation creates them.
const besides = [
  ...['etc/passwd', 'etc/group', 'etc/shadow', 'etc/gshadow', 'etc/debian_version'],
  ...['etc/alternatives', 'etc/alternatives/awk', 'usr/bin/awk', 'etc/apt/sources.list'],
  'etc/apt/apt.conf.d/90tools',
];

async function copyNode(into: string): Promise<void> {
  const local = join(into, 'usr/local');
  await mkdir(join(local, 'bin'), { recursive: true });
  await copyFile(await realpath(process.execPath), join(local, 'bin/node'));
  await chmod(join(local, 'bin/node'), 0o755);
  const npm = join(await npmSays('root', '--global'), 'npm');
  await cp(npm, join(local, 'lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'));
  await chmod(join(local, 'lib/node_modules/npm/bin/npm-cli.js'), 0o755);
  await appendFile(join(into, 'etc/passwd'), 'node:x:1000:1000::/home/node:/bin/bash\n');
  await appendFile(join(into, 'etc/group'), 'node:x:1000:\n');
}

const certificates = '/etc/ssl/certs/ca-certificates.crt';

/** How this machine reaches the registry of packages: addresses and authorities, no tokens. */
async function configureNpm(into: string): Promise<void> {
  const lines: string[] = [];
  for (const key of ['registry', 'proxy', 'https-proxy', 'noproxy', 'strict-ssl']) {
    const value = await npmSays('config', 'get', key);
    if (!['', 'null', 'undefined'].includes(value)) lines.push(`${key}=${value}`);
  }
  const configured = await npmSays('config', 'get', 'cafile');
  const authorities = [configured, process.env.NODE_EXTRA_CA_CERTS, certificates].find(
    file => file !== undefined && file !== 'null' && existsSync(file),
  );
  if (authorities !== undefined) {
    await mkdir(join(into, certificates, '..'), { recursive: true });
    await copyFile(authorities, join(into, certificates));
    lines.push(`cafile=${certificates}`);
  }
  await mkdir(join(into, 'usr/local/etc'), { recursive: true });
  await writeFile(join(into, 'usr/local/etc/npmrc'), `${lines.join('\n')}\n`);
}

async function npmSays(...args: readonly string[]): Promise<string> {
  // Outside the project, whose own settings are none of the machine's.
  const options = { cwd: '/' };
  const { stdout } = await promisify(execFile)(requireCommand('npm'), [...args], options);
  return stdout.trim();
}
