import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { Agent, RequestInit, fetch as UndiciFetch } from 'undici';
import type { Content } from './content.ts';
import type { Image } from './image.ts';

/** The properties of a registry that a push requires; `world/registry.ts` provides them. */
export interface PushTarget {
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** `authority`: the path of the certificate that signed the registry's own. */
  readonly certificates?: { readonly authority: string } | undefined;
}

const bigBlob = 32 * 1024 * 1024;
const parallel = 8;

/** Pushes images into one repository with plain requests, each blob once. */
export class Pusher {
  readonly #target: PushTarget;
  readonly #repository: string;
  readonly #pushed = new Map<string, Promise<void>>();
  /** For a registry with a certificate of its own. */
  #agent: Agent | undefined;
  #fetch = fetch as unknown as typeof UndiciFetch;
  #authorization: string | undefined;

  private constructor(target: PushTarget, repository: string) {
    this.#target = target;
    this.#repository = repository;
  }

  static async open(target: PushTarget, repository: string): Promise<Pusher> {
    const pusher = new Pusher(target, repository);
    await pusher.#authorize();
    return pusher;
  }

  async push(image: Image, tag: string): Promise<void> {
    const queue = [...image.blobs].values();
    const worker = async () => {
      for (const blob of queue) await this.#pushBlobOnce(blob);
    };
    await Promise.all(Array.from({ length: parallel }, worker));
    for (const child of image.children) await this.#pushManifest(child, child.digest);
    await this.#pushManifest(image.root, tag);
    for (const [name, content] of Object.entries(image.tags ?? {})) {
      await this.#pushManifest(content, name);
    }
    for (const content of image.gone ?? []) {
      const kind = image.blobs.includes(content) ? 'blobs' : 'manifests';
      await this.#send(202, `${kind}/${content.digest}`, { method: 'DELETE' });
    }
  }

  async close(): Promise<void> {
    await this.#agent?.close();
  }

  #pushBlobOnce(blob: Content): Promise<void> {
    const known = this.#pushed.get(blob.digest);
    if (known !== undefined) return known;
    const pushed = this.#pushBlob(blob);
    this.#pushed.set(blob.digest, pushed);
    return pushed;
  }

  async #pushBlob(blob: Content): Promise<void> {
    let place = await this.#send(202, 'blobs/uploads/', { method: 'POST' });
    if (blob.size > bigBlob) {
      const body = Readable.from(blob.read());
      place = await this.#send(202, place, { method: 'PATCH', body, duplex: 'half' });
    }
    const end = new URL(place, this.#target.url);
    end.searchParams.set('digest', blob.digest);
    const whole = blob.size > bigBlob ? {} : { body: Buffer.concat([...blob.read()]) };
    await this.#send(201, end.href, { method: 'PUT', ...whole });
  }

  async #pushManifest(manifest: Content, reference: string): Promise<void> {
    await this.#send(201, `manifests/${reference}`, {
      method: 'PUT',
      headers: { 'content-type': manifest.mediaType },
      body: Buffer.concat([...manifest.read()]),
    });
  }

  /** Returns the `Location` of the response. */
  async #send(expected: number, place: string, init: RequestInit): Promise<string> {
    const url = new URL(place, `${this.#target.url}/v2/${this.#repository}/`);
    const isUpload = init.body !== undefined && !(init.headers && 'content-type' in init.headers);
    const response = await this.#fetch(url, {
      ...init,
      ...(this.#agent ? { dispatcher: this.#agent } : {}),
      headers: {
        ...(isUpload ? { 'content-type': 'application/octet-stream' } : {}),
        ...(this.#authorization ? { authorization: this.#authorization } : {}),
        ...(init.headers as Record<string, string> | undefined),
      },
    });
    const body = await response.text();
    if (response.status !== expected) {
      throw new Error(`${init.method} ${url.href} was answered ${response.status}: ${body}`);
    }
    return response.headers.get('location') ?? '';
  }

  async #authorize(): Promise<void> {
    const { url, username, password, certificates } = this.#target;
    if (certificates) {
      // A hundred test files do without: it takes longer to load than the rest of them.
      const undici = await import('undici');
      this.#fetch = undici.fetch;
      this.#agent = new undici.Agent({
        connect: { ca: await readFile(certificates.authority, 'utf8') },
      });
    }
    const dispatcher = this.#agent ? { dispatcher: this.#agent } : {};
    const response = await this.#fetch(`${url}/v2/`, dispatcher);
    await response.text();
    const challenge = response.headers.get('www-authenticate');
    if (challenge === null) return;
    const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    this.#authorization = basic;
    if (!/^bearer /i.test(challenge)) return;
    const parameter = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(challenge)?.[1] ?? '';
    const realm = new URL(parameter('realm'));
    realm.searchParams.set('service', parameter('service'));
    realm.searchParams.set('scope', `repository:${this.#repository}:pull,push,delete`);
    const token = await this.#fetch(realm, { headers: { authorization: basic }, ...dispatcher });
    const granted = (await token.json()) as { token?: string; access_token?: string };
    this.#authorization = `Bearer ${granted.token ?? granted.access_token}`;
  }
}
