/** Clients that request, pull and revoke container tokens. */
import { createHash } from 'node:crypto';
import type { ContainerResponse } from '../world/sluice.ts';
import { inLanes } from './lanes.ts';
import { pullKept, pullManifest } from './pull-image.ts';
import type { Client, Storm, Work } from './storm.ts';
import { Refused } from './storm-http.ts';

/** A container token that a client has got. */
interface Container {
  readonly key: string;
  readonly token: string;
  /** Path below `/v2/` and tag. */
  readonly repository: string;
  readonly tag: string;
  readonly isKept: boolean;
  /** How often a client has read it, so that a server may have it in memory. */
  reads: number;
  /** How often a client has tried to revoke it. */
  revocations: number;
}

const recent = 12;
const fewestReads = 2;
const mostRevocations = 2;
const absent = '';

/** The container requests of a storm. */
export class ContainerWorks {
  readonly #containers: Container[] = [];
  #requests = 0;

  /** Requests a container. Most of them are never revoked. */
  readonly request: Work = async ({ http, history, tally, kept, registry, seed }, client) => {
    this.#requests += 1;
    const body = {
      containerImage: `${registry}/corpus/cfg:full`,
      containerConfig: { env: [`STORM=${seed}-${this.#requests}`] },
    };
    const start = history.now();
    const response = await http.post<ContainerResponse>('/v1alpha2/container', body);
    const container = containerOf(response, !client.random.once(3));
    const { key, repository, tag } = container;
    const write = { key, client: client.number, kind: 'write', value: response.digest } as const;
    history.note({ ...write, start, end: history.now() });
    this.#containers.push(container);
    tally.acknowledge('containers requested');
    if (container.isKept) kept.add({ kind: 'image', repository, tag, digest: response.digest });
  };

  /** Reads the manifest of a recent container, and sometimes pulls its image. */
  readonly read: Work = async (storm, client) => {
    const container = client.random.pick(this.#containers.slice(-recent));
    if (!container) return;
    const { repository, isKept } = container;
    const found = await this.#look(storm, container, client);
    storm.tally.count(found === absent ? 'containers read as revoked' : 'containers read');
    if (!isKept || !client.random.once(4)) return;
    await pullKept(storm.http, repository, found, client.random);
    storm.tally.count('images pulled');
  };

  /** Revokes a container that clients have read. */
  readonly revoke: Work = async ({ http, history, tally }, client) => {
    const candidates = this.#containers
      .slice(-recent)
      .filter(({ isKept }) => !isKept)
      .filter(({ reads, revocations }) => reads >= fewestReads && revocations < mostRevocations);
    const container = client.random.pick(candidates);
    if (!container) return;
    container.revocations += 1;
    const place = { key: container.key, client: client.number };
    const path = `/container-token/${container.token}`;
    // A proxy may have repeated the request of a token that it had revoked.
    await history.write(place, absent, () => http.expect([200, 404], path, { method: 'DELETE' }));
    tally.acknowledge('containers revoked');
  };

  /** Reads all containers once, when nothing fails any more. */
  async readAll(storm: Storm, client: Client): Promise<void> {
    await inLanes(this.#containers, container => this.#look(storm, container, client));
  }

  #look({ http, history }: Storm, container: Container, client: Client): Promise<string> {
    const { key, repository, tag } = container;
    return history.read({ key, client: client.number }, async () => {
      try {
        const { digest } = await pullManifest(http, repository, tag);
        container.reads += 1;
        return digest;
      } catch (error) {
        if (error instanceof Refused && error.status === 404) return absent;
        throw error;
      }
    });
  }
}

function containerOf(
  { targetImage, containerToken }: ContainerResponse,
  isKept: boolean,
): Container {
  const [, repository = '', tag = ''] = /^[^/]+\/(.+):([^:]+)$/.exec(targetImage) ?? [];
  const hash = createHash('sha256').update(containerToken).digest('hex').slice(0, 12);
  return {
    key: `container ${hash}`,
    token: containerToken,
    repository,
    tag,
    isKept,
    reads: 0,
    revocations: 0,
  };
}
