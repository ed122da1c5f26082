/**
 * Images that stand in for those of Docker Hub, which the tests do not reach: the same programs from the packages of
 * this machine, with busybox around them. Their entry points do what those of the official images do, for the variables
 * and arguments that deploy/compose uses.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { appendFile, copyFile, cp, mkdir, realpath, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { directoryTree } from '../../src/buildkit/index.ts';
import { buildImageFile, copyBusybox } from './image-files.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand, requireObjectStore } from './tools.ts';

/** Makes an image like `nginx:alpine`. */
export async function makeNginxImage(builder: string, name: string, file: string): Promise<void> {
  await makeImage(builder, name, file, async into => {
    const program = await copyProgram(into, requireCommand('nginx'));
    await appendFile(join(into, 'etc/passwd'), 'nginx:x:101:101::/nonexistent:/bin/false\n');
    await appendFile(join(into, 'etc/group'), 'nginx:x:101:\n');
    for (const folder of ['var/log/nginx', 'var/lib/nginx', 'etc/nginx']) {
      await mkdir(join(into, folder), { recursive: true });
    }
    return `ENV PATH=${dirname(program)}:${searchPath}\nSTOPSIGNAL SIGQUIT\nCMD ["nginx", "-g", "daemon off;"]\n`;
  });
}

/** Makes an image like `versity/versitygw`. */
export async function makeStoreImage(builder: string, name: string, file: string): Promise<void> {
  await makeImage(builder, name, file, async into => {
    await copyProgram(into, requireObjectStore(), 'usr/bin/versitygw');
    return 'ENTRYPOINT ["/usr/bin/versitygw"]\n';
  });
}

// The number of the user in the official image, which is of Debian.
const postgres = 999;

const postgresEntry = `#!/bin/sh
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /var/run/postgresql/password
  initdb --username="$POSTGRES_USER" --pwfile=/var/run/postgresql/password --encoding=UTF8 --auth-local=trust --auth-host=trust
  rm /var/run/postgresql/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl --options='-c listen_addresses=' --wait start
  psql --username="$POSTGRES_USER" --dbname=postgres --command="CREATE DATABASE \\"$POSTGRES_DB\\""
  pg_ctl --wait stop
fi
exec "$@" -c listen_addresses='*'
`;

/** Makes an image like `postgres`. */
export async function makePostgresImage(
  builder: string,
  name: string,
  file: string,
): Promise<void> {
  await makeImage(builder, name, file, async into => {
    const folder = dirname(await realpath(requireCommand('initdb')));
    for (const program of ['initdb', 'postgres', 'pg_ctl', 'psql', 'pg_isready', 'pg_dump']) {
      await copyProgram(into, join(folder, program));
    }
    await copyProgram(into, join(folder, 'pg_restore'));
    // That of busybox does not keep extended attributes.
    await rm(join(into, 'usr/bin/tar'));
    await copyProgram(into, '/usr/bin/tar');
    const version = basename(dirname(folder));
    const others = [join(dirname(folder), 'lib'), `/usr/share/postgresql/${version}`];
    for (const path of [...others, '/usr/share/zoneinfo/Etc']) {
      await cp(path, join(into, path), { recursive: true, filter: one => !one.includes('jit') });
    }
    await appendFile(join(into, 'etc/passwd'), `postgres:x:${postgres}:${postgres}::/:/bin/sh\n`);
    await appendFile(join(into, 'etc/group'), `postgres:x:${postgres}:\n`);
    await writeFile(join(into, 'usr/bin/docker-entrypoint.sh'), postgresEntry, { mode: 0o755 });
    const owned = `--chown=${postgres}:${postgres} --chmod=700 empty`;
    await mkdir(join(into, 'empty'));
    return [
      `COPY ${owned} /var/lib/postgresql/data`,
      `COPY ${owned} /var/run/postgresql`,
      `ENV PATH=${folder}:${searchPath} PGDATA=/var/lib/postgresql/data`,
      ...[`USER ${postgres}`, 'STOPSIGNAL SIGINT', 'VOLUME /var/lib/postgresql/data'],
      ...['ENTRYPOINT ["docker-entrypoint.sh"]', 'CMD ["postgres"]', ''],
    ].join('\n');
  });
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** @param fill puts files into the directory of the image, and returns the end of its Dockerfile */
async function makeImage(
  builder: string,
  name: string,
  file: string,
  fill: (into: string) => Promise<string>,
): Promise<void> {
  await using files = await makeTempDir('hub-image');
  await copyBusybox(files.path, []);
  const dockerfile = `FROM scratch\nCOPY . /\n${await fill(files.path)}`;
  await buildImageFile(builder, { dockerfile, context: directoryTree(files.path) }, name, file);
}

/** Copies a program of this machine and the libraries that it needs. Returns its path in the image. */
export async function copyProgram(into: string, path: string, as = path): Promise<string> {
  await put(path, join(into, as));
  // It fails for a program that is linked statically.
  const listed = await promisify(execFile)(requireCommand('ldd'), [path]).catch(() => undefined);
  for (const [, library = ''] of listed?.stdout.matchAll(/=> (\/\S+)/g) ?? []) {
    if (!existsSync(join(into, library))) await put(library, join(into, library));
  }
  return as;
}

async function put(path: string, place: string): Promise<void> {
  await mkdir(dirname(place), { recursive: true });
  await copyFile(path, place);
}
