/** Calls of BuildKit's Control service, except those for builds. */
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { failureOfCall, isServiceError, Stop } from '../errors/call-error.ts';
import { Control } from '../gen/moby/buildkit/v1/control_pb.js';
import type * as wire from '../gen/moby/buildkit/v1/usage_pb.js';
import { callServerStream, callUnary, type Transport } from './channel.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
}

/** Version of a builder. All members are undefined if the builder cannot report it, such as Docker 20.10's. */
export interface BuilderInfo {
  readonly package: string | undefined;
  readonly version: string | undefined;
  readonly revision: string | undefined;
}

export interface BuilderWorker {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Native and emulated platforms, such as `linux/amd64`; the native one comes first. */
  readonly platforms: readonly string[];
}

/** A cache record on the disk of a builder. */
export interface UsageRecord {
  readonly id: string;
  /** Bytes. */
  readonly size: number;
  readonly inUse: boolean;
  readonly mutable: boolean;
  readonly shared: boolean;
  readonly usageCount: number;
  readonly description: string;
  /** Type of the record, such as `regular`, `source.local`, `exec.cachemount`. */
  readonly type: string;
  readonly parents: readonly string[];
  /** Milliseconds since the epoch. */
  readonly createdMs: number | undefined;
  readonly lastUsedMs: number | undefined;
}

/** Limits of a prune. Records in use are never removed. */
export interface PruneOptions {
  /** Filters such as `type==source.local`. A record that matches one of them is removed. */
  readonly filter?: readonly string[];
  /** Also removes internal and shared records. */
  readonly all?: boolean;
  /** Keeps records that were used within this time (ms). */
  readonly keepMs?: number;
  /** Bytes. */
  readonly reservedSpace?: number;
  readonly maxUsedSpace?: number;
  readonly minFreeSpace?: number;
}

/** The part of a client that these calls need. */
interface Caller {
  readonly address: string;
  /** Aborted when the client closes. */
  readonly closed: AbortSignal;
  open(): Promise<Transport>;
}

const callMs = 10_000;
const pruneMs = 600_000;

export function info(caller: Caller, options: CallOptions): Promise<BuilderInfo> {
  return call(caller, options, callMs, async ({ control }, signal) => {
    try {
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

export function listWorkers(caller: Caller, options: CallOptions): Promise<BuilderWorker[]> {
  return call(caller, options, callMs, async ({ control }, signal) => {
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

export function diskUsage(
  caller: Caller,
  filter: readonly string[],
  options: CallOptions,
): Promise<UsageRecord[]> {
  return call(caller, options, callMs, async ({ control }, signal) => {
    const request = { filter: [...filter] };
    const { record } = await callUnary(control, Control.method.diskUsage, request, signal);
    return record.map(usageRecord);
  });
}

export function prune(
  caller: Caller,
  { filter = [], all = false, keepMs = 0, ...space }: PruneOptions,
  options: CallOptions,
): Promise<UsageRecord[]> {
  return call(caller, options, pruneMs, async ({ control }, signal) => {
    const gone: UsageRecord[] = [];
    const responses = callServerStream(control, Control.method.prune, {
      filter: [...filter],
      all,
      keepDuration: BigInt(Math.round(keepMs)) * 1_000_000n,
      reservedSpace: BigInt(space.reservedSpace ?? 0),
      maxUsedSpace: BigInt(space.maxUsedSpace ?? 0),
      minFreeSpace: BigInt(space.minFreeSpace ?? 0),
    });
    const onAbort = () => responses.cancel();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      for await (const record of responses) gone.push(usageRecord(record as wire.UsageRecord));
      return gone;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  });
}

async function call<T>(
  caller: Caller,
  { signal, timeoutMs }: CallOptions,
  defaultMs: number,
  send: (transport: Transport, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  using stop = new Stop([signal, caller.closed], timeoutMs ?? defaultMs, {
    cancelled: 'The call was cancelled',
    timeout: `The builder at ${caller.address} does not answer`,
  });
  try {
    const transport = await caller.open();
    await transport.ready;
    stop.signal.throwIfAborted();
    return await send(transport, stop.signal);
  } catch (error) {
    throw stop.signal.aborted ? stop.signal.reason : failureOfCall(error, caller.address);
  }
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
