import { execFile, execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, copyFile, cp, mkdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build, connect, directoryTree } from '../../src/buildkit/index.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand, requireTools, rootDirectory } from './tools.ts';

const suite = 'bookworm';
// What Node and the shell of a Dockerfile need, with all that these depend on.
const wanted = ['base-files', 'bash', 'coreutils', 'dash', 'libstdc++6'];

/**
 * Makes an image like Docker's `node:24-bookworm-slim` and pushes it: Debian's own files, this project's
 * Node, and the machine's npm with its way to the package registry, without any token for that.
 */
export async function pushNodeImage(builder: string, reference: string): Promise<void> {
  await using files = await makeTempDir('node-image');
  await copyPackages(files.path);
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

async function copyPackages(into: string): Promise<void> {
  requireTools([suite]);
  const root = rootDirectory(suite);
  const database = join(root, 'var/lib/dpkg');
  const names = withDependencies(readFileSync(join(database, 'status'), 'utf8'));
  const paths = names
    .flatMap(name => {
      const lists = [`${name}.list`, `${name}:${debianArchitecture}.list`];
      const list = lists.map(file => join(database, 'info', file)).find(existsSync);
      return list === undefined ? [] : readFileSync(list, 'utf8').split('\n');
    })
    .filter(path => !/^\/usr\/share\/(?:doc|info|locale|man)\//.test(path))
    .map(path => path.slice(1))
    .filter(path => path !== '' && path !== '.' && existsSync(join(root, path)));
  for (const name of ['bin', 'lib', 'lib64', 'sbin']) {
    await mkdir(join(into, 'usr', name), { recursive: true });
    await symlink(`usr/${name}`, join(into, name));
  }
  // A path of a package may lead through a link, such as /bin.
  const script = 'tar -C "$1" --no-recursion -cT - | tar -C "$2" --keep-directory-symlink -x';
  execFileSync('sh', ['-c', script, 'sh', root, into], { input: paths.join('\n') });
}

const debianArchitecture = process.arch === 'x64' ? 'amd64' : process.arch;

/** The names of packages that are installed, each once. Source: deb-control(5). */
function withDependencies(status: string): string[] {
  const packages = new Map(
    status.split('\n\n').map(text => {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(text)?.[1] ?? '';
      return [field('Package'), `${field('Pre-Depends')}, ${field('Depends')}`] as const;
    }),
  );
  const names = new Set(wanted);
  for (const name of names) {
    for (const alternatives of (packages.get(name) ?? '').split(',')) {
      const others = alternatives.split('|').map(one => one.trim().replace(/[ :(].*$/, ''));
      const found = others.find(other => packages.has(other));
      if (found !== undefined) names.add(found);
    }
  }
  return [...names];
}

async function copyNode(into: string): Promise<void> {
  const local = join(into, 'usr/local');
  await mkdir(join(local, 'bin'), { recursive: true });
  await copyFile(await realpath(process.execPath), join(local, 'bin/node'));
  await chmod(join(local, 'bin/node'), 0o755);
  const npm = join(await npmSays('root', '--global'), 'npm');
  await cp(npm, join(local, 'lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'));
  await chmod(join(local, 'lib/node_modules/npm/bin/npm-cli.js'), 0o755);
  await writeFile(
    join(into, 'etc/passwd'),
    'root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1000::/home/node:/bin/bash\n',
  );
  await writeFile(join(into, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
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
