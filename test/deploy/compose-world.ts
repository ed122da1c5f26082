/** The site of deploy/compose in a Docker engine with its own network. */
import assert from 'node:assert/strict';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { assertSuccess } from '../integration/served.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { composeImages } from '../world/compose-images.ts';
import { type Docker, startDocker } from '../world/docker.ts';
import { makeNginxImage, makePostgresImage, makeStoreImage } from '../world/hub-images.ts';
import { sluiceImageName } from '../world/own-image.ts';
import type { Result } from '../world/program.ts';
import { keptFolder, packagesOf, textsOf } from '../world/run-folder.ts';
import { requireCommand, requireObjectStore } from '../world/tools.ts';

const project = fileURLToPath(new URL('../..', import.meta.url));
const folder = '/tmp/project/sluice';
const patienceMs = 240_000;

export const replicas = ['replica-1', 'replica-2', 'replica-3'] as const;
export const workers = ['worker-1', 'worker-2'] as const;
/** The address in the files; the engine has its own network, so nobody else uses it. */
export const host = '127.0.0.1:9090';
export const account = { username: 'admin', password: 'sesame' };

export interface ComposeSite extends AsyncDisposable {
  readonly docker: Docker;
  compose(...args: readonly string[]): Promise<Result>;
  /** Runs a shell script as an operator does, in the directory with compose.yaml. */
  shell(script: string): Promise<Result>;
  /** Runs a program in the container of a service. */
  inside(service: string, ...command: readonly string[]): Promise<Result>;
  /** Returns true for the replica that leads. */
  leads(replica: string): Promise<boolean>;
  /** Address of a service in a network of the site. */
  address(service: string, network: string): Promise<string>;
  /** Sends an HTTP request through nginx, from the machine of the site. */
  curl(path: string, options?: readonly string[], input?: string): Promise<Result>;
}

const printMetrics =
  "fetch('http://127.0.0.1:9090/metrics').then(async answer => process.stdout.write(await answer.text()))";

/** Makes the images and starts the engine; the site is not started. */
export async function openComposeSite(): Promise<ComposeSite> {
  const files = [...(await composeImages()), ...(await hubImages())];
  // The site sets an attribute of its files that only disks have.
  const docker = await startDocker({ suite: 'forky', ownNetwork: true, onDisk: true });
  const { root } = docker;
  const directory = join(root.directory, folder, 'deploy/compose');
  try {
    await docker.load(files);
    assertSuccess(await docker.docker(['tag', sluiceImageName, await imageOf('setup')]));
    await mkdir(directory, { recursive: true });
    for (const name of ['deploy/compose', 'builder', 'Dockerfile']) {
      const place = join(root.directory, folder, name);
      await cp(join(project, name), place, { recursive: true });
    }
    await writeFile(join(directory, '.env'), await settings());
    await shortenPatience(join(directory, 'health.cjs'));
  } catch (error) {
    await docker.stop();
    throw error;
  }
  const compose = (...args: readonly string[]) =>
    root.exec(['docker', 'compose', '--project-directory', `${folder}/deploy/compose`, ...args], {
      timeoutMs: patienceMs,
    });
  const inside = (service: string, ...command: readonly string[]) =>
    compose('exec', '--no-TTY', service, ...command);
  return {
    ...{ docker, compose, inside },
    shell: script =>
      root.exec(['sh', '-ec', `cd ${folder}/deploy/compose\n${script}`], { timeoutMs: patienceMs }),
    async leads(replica) {
      const { stdout } = await inside(replica, 'node', '-e', printMetrics);
      return /^sluice_replica_leads 1$/m.test(stdout);
    },
    async address(service, network) {
      const format = `{{(index .NetworkSettings.Networks "sluice-site_${network}").IPAddress}}`;
      const name = `sluice-site-${service}-1`;
      return assertSuccess(await docker.docker(['inspect', '--format', format, name])).trim();
    },
    curl: (path, options = [], input = '') =>
      root.execOnNetwork(
        [requireCommand('curl'), '-sS', '--fail-with-body', ...options, `http://${host}${path}`],
        { input, timeoutMs: patienceMs },
      ),
    [Symbol.asyncDispose]: docker.stop,
  };
}

/** Makes a replica that hangs end itself sooner. */
async function shortenPatience(path: string): Promise<void> {
  const text = await readFile(path, 'utf8');
  const changed = text.replace('patienceMs = 30_000', 'patienceMs = 10_000');
  assert.notEqual(changed, text);
  await writeFile(path, changed);
}

/** The example, filled in. */
async function settings(): Promise<string> {
  const values: Readonly<Record<string, string>> = {
    SLUICE_ACCOUNTS: `${account.username}:${account.password}`,
    SLUICE_DATABASE_PASSWORD: 'sesameForTheRows',
    SLUICE_STORE_PASSWORD: 'sesameForTheContent',
    SLUICE_BUILDER_MEMORY: '512m',
  };
  let text = await readFile(join(project, 'deploy/compose/.env.example'), 'utf8');
  for (const [name, value] of Object.entries(values)) {
    const changed = text.replace(new RegExp(`^#?${name}=.*$`, 'm'), `${name}=${value}`);
    assert.notEqual(changed, text, `.env.example has ${name}`);
    text = changed;
  }
  return text;
}

/** Returns files for `docker load` with the images of Docker Hub that only this site has. */
async function hubImages(): Promise<string[]> {
  const makers = { nginx: makeNginxImage, postgres: makePostgresImage, store: makeStoreImage };
  const names = await Promise.all(Object.keys(makers).map(imageOf));
  const texts = textsOf('hub-images.ts', 'image-files.ts', 'debian-files.ts');
  const sources = [...names, requireObjectStore(), packagesOf(), packagesOf('forky'), ...texts];
  const folder = await keptFolder('hub-images', sources, async into => {
    await using buildkitd = await startBuildkitd();
    const { address } = buildkitd;
    await Promise.all(
      Object.entries(makers).map(async ([service, make]) =>
        make(address, await imageOf(service), join(into, service)),
      ),
    );
  });
  return Object.keys(makers).map(service => join(folder, service));
}

async function imageOf(service: string): Promise<string> {
  const text = await readFile(join(project, 'deploy/compose/compose.yaml'), 'utf8');
  const image = parse(text, { merge: true }).services[service].image as string;
  const [, name = image] = /^\$\{\w+:-([^}]+)\}$/.exec(image) ?? [];
  return name;
}
