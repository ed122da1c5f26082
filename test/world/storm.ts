/** What clients of replicas do during a storm, and what must hold after it. */
import { createHash } from 'node:crypto';
import { digestOf } from '../../src/oci/digest.ts';
import { basic, manifestOf, manifestType } from '../hosted/push-client.ts';

/** Something that a server has acknowledged. */
export type Promised =
  /** A tag that is pushed again and again: this version, or a later one. */
  | { kind: 'tag'; repository: string; tag: string; version: number }
  | { kind: 'deleted'; repository: string; tag: string }
  | { kind: 'container'; path: string; digest: string }
  | { kind: 'revoked'; path: string }
  | { kind: 'build'; id: string };

/** A site behind a balancer, as an account sees it. */
export interface Site {
  readonly url: string;
  readonly login: { readonly username: string; readonly password: string };
}

const callMs = 60_000;
const chunks = 3;

/** Returns bytes that are the same for the same text. */
export function bytesOf(text: string, length: number): Buffer {
  return createHash('shake256', { outputLength: length }).update(text).digest();
}

export class StormClient {
  readonly #site: Site;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(site: Site) {
    this.#site = site;
    this.#headers = basic(site.login.username, site.login.password);
  }

  /** Throws unless the answer has the status, and arrives whole. */
  async expect(status: number, path: string, init: RequestInit = {}): Promise<Answered> {
    const answer = await fetch(new URL(path, this.#site.url), {
      ...init,
      headers: { ...this.#headers, accept: '*/*', ...init.headers },
      signal: AbortSignal.timeout(callMs),
    });
    const body = Buffer.from(await answer.arrayBuffer());
    if (answer.status !== status) throw new Error(`${answer.status}: ${body.subarray(0, 500)}`);
    return { headers: answer.headers, body };
  }

  async #pushBlob(repository: string, bytes: Buffer): Promise<void> {
    const begun = await this.expect(202, `/v2/${repository}/blobs/uploads/`, { method: 'POST' });
    let location = begun.headers.get('location') ?? '';
    const size = Math.ceil(bytes.length / chunks);
    for (let at = 0; at < bytes.length; at += size) {
      const body = bytes.subarray(at, at + size);
      const sent = await this.expect(202, location, { method: 'PATCH', body });
      location = sent.headers.get('location') ?? '';
    }
    const end = new URL(location, this.#site.url);
    end.searchParams.set('digest', digestOf(bytes));
    await this.expect(201, end.href, { method: 'PUT' });
  }

  /** Pushes a version of an image in chunks. */
  async pushImage(repository: string, tag: string, version: number): Promise<void> {
    const layer = bytesOf(`${repository} ${version}`, 200_000);
    const config = Buffer.from(JSON.stringify({ version, repository }));
    for (const blob of [layer, config]) await this.#pushBlob(repository, blob);
    await this.expect(201, `/v2/${repository}/manifests/${tag}`, {
      method: 'PUT',
      headers: { 'content-type': manifestType },
      body: manifestOf(config, [layer]),
    });
  }

  /** Pulls an image whole, and returns its version. */
  async pullImage(repository: string, tag: string): Promise<number> {
    const { body } = await this.expect(200, `/v2/${repository}/manifests/${tag}`);
    const { config, layers } = JSON.parse(body.toString()) as Manifest;
    const blobs: Buffer[] = [];
    for (const { digest } of [config, ...layers]) {
      const blob = await this.expect(200, `/v2/${repository}/blobs/${digest}`);
      if (digestOf(blob.body) !== digest) throw new Error(`wrong bytes in place of ${digest}`);
      blobs.push(blob.body);
    }
    return Number(JSON.parse(String(blobs[0])).version);
  }

  /** Returns why something that was promised does not hold; undefined when it does. */
  async brokenBy(promised: Promised): Promise<string | undefined> {
    try {
      await this.#check(promised);
      return undefined;
    } catch (error) {
      return `${JSON.stringify(promised)}: ${(error as Error).message}`;
    }
  }

  async #check(promised: Promised): Promise<void> {
    switch (promised.kind) {
      case 'tag': {
        const version = await this.pullImage(promised.repository, promised.tag);
        if (version < promised.version) throw new Error(`is version ${version}`);
        return;
      }
      case 'deleted':
        await this.expect(404, `/v2/${promised.repository}/manifests/${promised.tag}`);
        return;
      case 'container': {
        const { body } = await this.expect(200, promised.path);
        if (digestOf(body) !== promised.digest) throw new Error(`has digest ${digestOf(body)}`);
        return;
      }
      case 'revoked':
        await this.expect(404, promised.path);
        return;
      case 'build': {
        const { body } = await this.expect(200, `/v1alpha1/builds/${promised.id}/status`);
        const { status, succeeded } = JSON.parse(body.toString());
        if (status === 'COMPLETED' && succeeded === true) return;
        const log = await this.expect(200, `/v1alpha1/builds/${promised.id}/logs`);
        // The log gives its user the reason: a build may be what ends the server.
        if (/ended unexpectedly 3 times while this build ran/.test(log.body.toString())) return;
        throw new Error(`${body.toString()} ${log.body.toString()}`);
      }
    }
  }
}

interface Answered {
  readonly headers: Headers;
  readonly body: Buffer;
}

interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string }[];
}
