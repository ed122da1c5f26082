/** Clients of a site that do something for a while, on the machine of the site. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { eventually } from '../world/eventually.ts';
import type { Root } from '../world/root.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { type ComposeSite, host } from './compose-world.ts';

export interface SteadyResult {
  readonly answers: number;
  /** The longest that a client waited for a response (ms). */
  readonly longestMs: number;
  /** Statuses other than 200, and errors. */
  readonly failures: readonly string[];
}

// Every second lane makes a new connection for each request: those that are kept pass by the balancer.
const steadyClient = `
  const { Agent, get } = require('node:http');
  let answers = 0, longestMs = 0, hasEnded = false;
  const failures = [];
  process.once('SIGTERM', () => { hasEnded = true; });
  const [, url, count, host] = process.argv;
  const ask = agent => new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(60_000);
    get(url, { agent, signal, headers: { host } }, answer => {
      answer.resume().on('error', reject).on('end', () => resolve(answer.statusCode));
    }).on('error', reject);
  });
  const run = async lane => {
    const agent = lane % 2 === 0 && new Agent({ keepAlive: true });
    while (!hasEnded) {
      const began = performance.now();
      try {
        const status = await ask(agent);
        answers += 1;
        longestMs = Math.max(longestMs, performance.now() - began);
        if (status !== 200) failures.push(String(status));
      } catch (error) {
        failures.push(String(error.cause ?? error));
      }
    }
  };
  const lanes = Array.from({ length: Number(count) }, (_, lane) => run(lane));
  Promise.all(lanes).then(() => console.log(JSON.stringify({ answers, longestMs, failures })));`;

/**
 * Requests a URL again and again from the network of a root, until the work is done.
 *
 * @param lanes number of simultaneous requests
 * @param siteName the host of the site. Default: that in the URL
 */
export async function requestDuring(
  root: Root,
  url: string,
  work: () => Promise<void>,
  lanes = 1,
  siteName = new URL(url).host,
): Promise<SteadyResult> {
  const command = [process.execPath, '-e', steadyClient, url, String(lanes), siteName];
  await using client = root.spawnOnNetwork(command);
  await work();
  client.process.kill('SIGTERM');
  await client.ended;
  return JSON.parse(client.output());
}

export interface SlowPull extends AsyncDisposable {
  /** Reads the rest and returns the digest of the whole blob. Throws when the transfer breaks off. */
  finish(): Promise<string>;
}

const slowClient = `
  const { createHash } = require('node:crypto');
  const { existsSync } = require('node:fs');
  const { setTimeout: sleep } = require('node:timers/promises');
  const [url, signal] = process.argv.slice(1);
  const run = async () => {
    const hash = createHash('sha256');
    const answer = await fetch(url);
    let size = 0;
    for await (const chunk of answer.body) {
      hash.update(chunk);
      if (size === 0) console.log('begun');
      size += chunk.length;
      while (!existsSync(signal)) await sleep(20);
    }
    console.log('sha256:' + hash.digest('hex'));
  };
  run();`;

/** Begins to pull a blob through nginx, and waits after the first bytes. */
export async function beginPull(site: ComposeSite, path: string): Promise<SlowPull> {
  const directory = await makeTempDir('slow-pull');
  const signal = directory.join('go');
  const command = [process.execPath, '-e', slowClient, `http://${host}${path}`, signal];
  const client = site.docker.root.spawnOnNetwork(command);
  const end = async () => {
    await client.stop();
    await directory.remove();
  };
  try {
    await eventually('the pull has begun', () => {
      if (client.process.exitCode !== null) assert.fail(client.output());
      return client.output().includes('begun');
    });
  } catch (error) {
    await end();
    throw error;
  }
  return {
    async finish() {
      await writeFile(signal, '');
      await client.ended;
      const [digest] = /sha256:\w+/.exec(client.output()) ?? [];
      assert.ok(digest, client.output());
      return digest;
    },
    [Symbol.asyncDispose]: end,
  };
}
