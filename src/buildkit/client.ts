import { timestampMs } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { failureOfCall, isServiceError } from './errors/call-error.ts';
import { Stop } from './errors/stop.ts';
import { Control } from './gen/moby/buildkit/v1/control_pb.js';
import type * as wire from './gen/moby/buildkit/v1/usage_pb.js';
import { type ConnectOptions, openTransport, type Transport } from './grpc/channel.ts';
import { callServerStream, callUnary } from './grpc/rpc.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
}

/** What builder it is; all are undefined for one that does not tell, such as that of Docker 20.10. */
export interface BuilderInfo {
  readonly package: string | undefined;
  readonly version: string | undefined;
  readonly revision: string | undefined;
}

export interface BuilderWorker {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Such as `linux/amd64`, those it runs by itself and those it emulates; its own first. */
  readonly platforms: readonly string[];
}

/** Something that a builder keeps on its disk. */
export interface UsageRecord {
  readonly id: string;
  /** Bytes. */
  readonly size: number;
  readonly inUse: boolean;
  readonly mutable: boolean;
  readonly shared: boolean;
  readonly usageCount: number;
  readonly description: string;
  /** Such as `regular`, `source.local`, `exec.cachemount`. */
  readonly type: string;
  readonly parents: readonly string[];
  /** Milliseconds since the epoch. */
  readonly createdMs: number | undefined;
  readonly lastUsedMs: number | undefined;
}

/** What a builder may keep; what is in use it keeps anyway. */
export interface PruneOptions {
  /** Such as `type==source.local`; a record that one of them matches is pruned. */
  readonly filter?: readonly string[];
  /** Internal and shared records too. */
  readonly all?: boolean;
  /** Spares what was used in the last so many milliseconds. */
  readonly keepMs?: number;
  /** Bytes. */
  readonly reservedSpace?: number;
  readonly maxUsedSpace?: number;
  readonly minFreeSpace?: number;
}

const questionMs = 10_000;
const pruneMs = 600_000;

/**
 * A builder. All methods reject with a {@link BuildError}: `unavailable` when it cannot be reached,
 * `timeout` after `timeoutMs`, `cancelled` by the signal, `other` for what it refuses.
 */
export class BuildkitClient {
  readonly address: string;
  /** For {@link build}, and nobody else. */
  readonly transport: Transport;
  readonly #closing = new AbortController();

  constructor(address: string, options: ConnectOptions) {
    this.address = address;
    this.transport = openTransport(address, options);
  }

  info(options: CallOptions = {}): Promise<BuilderInfo> {
    return this.#ask(options, questionMs, async signal => {
      try {
        const { control } = this.transport;
        const { buildkitVersion } = await callUnary(control, Control.method.info, {}, signal);
        return {
          package: buildkitVersion?.package,
          version: buildkitVersion?.version,
          revision: buildkitVersion?.revision,
        };
      } catch (error) {
        if (!isServiceError(error) || error.code !== status.UNIMPLEMENTED) throw error;
        return { package: undefined, version: undefined, revision: undefined };
      }
    });
  }

  listWorkers(options: CallOptions = {}): Promise<BuilderWorker[]> {
    return this.#ask(options, questionMs, async signal => {
      const { control } = this.transport;
      const { record } = await callUnary(control, Control.method.listWorkers, {}, signal);
      return record.map(worker => ({
        id: worker.ID,
        labels: worker.Labels,
        platforms: worker.platforms.map(({ OS, Architecture, Variant }) =>
          [OS, Architecture, Variant].filter(part => part !== '').join('/'),
        ),
      }));
    });
  }

  /** What the builder keeps, all of it or what one of the filters matches. */
  diskUsage(filter: readonly string[] = [], options: CallOptions = {}): Promise<UsageRecord[]> {
    return this.#ask(options, questionMs, async signal => {
      const request = { filter: [...filter] };
      const { control } = this.transport;
      const { record } = await callUnary(control, Control.method.diskUsage, request, signal);
      return record.map(usageRecord);
    });
  }

  /** Removes what the builder need not keep; returns what is gone. */
  prune(what: PruneOptions = {}, options: CallOptions = {}): Promise<UsageRecord[]> {
    const { filter = [], all = false, keepMs = 0 } = what;
    return this.#ask(options, pruneMs, async signal => {
      const gone: UsageRecord[] = [];
      const answers = callServerStream(this.transport.control, Control.method.prune, {
        filter: [...filter],
        all,
        keepDuration: BigInt(Math.round(keepMs)) * 1_000_000n,
        reservedSpace: BigInt(what.reservedSpace ?? 0),
        maxUsedSpace: BigInt(what.maxUsedSpace ?? 0),
        minFreeSpace: BigInt(what.minFreeSpace ?? 0),
      });
      const onAbort = () => answers.cancel();
      signal.addEventListener('abort', onAbort, { once: true });
      try {
        for await (const record of answers) gone.push(usageRecord(record as wire.UsageRecord));
        return gone;
      } finally {
        signal.removeEventListener('abort', onAbort);
      }
    });
  }

  /** Aborted by {@link close}. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Ends all connections; what still runs is cancelled. */
  close(): void {
    this.#closing.abort();
    this.transport.close();
  }

  async #ask<T>(
    { signal, timeoutMs }: CallOptions,
    usualMs: number,
    question: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    using stop = new Stop([signal, this.closed], timeoutMs ?? usualMs, {
      cancelled: 'The question was cancelled',
      timeout: `The builder at ${this.address} does not answer`,
    });
    try {
      await this.transport.ready;
      stop.signal.throwIfAborted();
      return await question(stop.signal);
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : failureOfCall(error, this.address);
    }
  }
}

/**
 * A client of the builder at `unix:///path`, `tcp://host:port` or `docker+unix:///path` (the builder in
 * the Docker engine there). Sends nothing yet. Throws a `TypeError` for another address.
 */
export function connect(address: string, options: ConnectOptions = {}): BuildkitClient {
  return new BuildkitClient(address, options);
}

function usageRecord(record: wire.UsageRecord): UsageRecord {
  return {
    id: record.ID,
    size: Number(record.Size),
    inUse: record.InUse,
    mutable: record.Mutable,
    shared: record.Shared,
    usageCount: Number(record.UsageCount),
    description: record.Description,
    type: record.RecordType,
    parents: record.Parents,
    createdMs: record.CreatedAt && timestampMs(record.CreatedAt),
    lastUsedMs: record.LastUsedAt && timestampMs(record.LastUsedAt),
  };
}
