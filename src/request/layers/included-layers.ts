import { Fault } from '../../foundation/fault.ts';
import { inTurns } from '../../foundation/work.ts';
import type { InjectedLayer } from '../../images/augment/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { FetchedLayerStore } from '../../storage/rows/index.ts';
import type { Packing } from './layer-check.ts';
import { notAsNamed, notSent, type SizeLimit, tooLarge, tooLate } from './layer-faults.ts';
import { createLayerFetches } from './layer-fetches.ts';
import { type Intake, isSame, type LayerLimits, type Measured } from './one-intake.ts';
import { requireFlow } from './required-flow.ts';
import { createStackRewriter } from './rewritten-stack.ts';
import { createWhiteoutCheck } from './whiteout-check.ts';

/** A layer of an included image, as its image describes it. */
export interface IncludedLayer {
  /** In messages. */
  readonly name: string;
  readonly layer: InjectedLayer;
  /** As its media type says. */
  readonly packing: Packing;
  /** Repository and digest: the repository has sent these bytes if the place is among the fetched layers. */
  readonly place: string;
  /** The place, and the credentials for it: callers with the same text have the same right to the layer. */
  readonly right: string;
  /** Throws a {@link Fault} unless the registry shows the blob to the caller now. */
  readonly show: (signal: AbortSignal | undefined) => Promise<void>;
  readonly open: (signal: AbortSignal) => Promise<ByteSource>;
}

/** What is noted of a layer of an included image: bytes that its repository has sent. */
interface IncludedNote extends Measured {
  /** Bytes of the tar file. */
  readonly tarSize: number;
  /** True if it deletes files of the layers below it. Notes of earlier versions have none: they refused such layers. */
  readonly hides?: boolean;
  /** Default: gzip. */
  readonly packing?: Packing;
}

interface IncludedLayersDeps {
  readonly content: Pick<ContentStore, 'size' | 'open'>;
  readonly fetched: FetchedLayerStore;
  readonly limits: Pick<LayerLimits, 'maxUrlBytes' | 'maxTarBytes' | 'fetchTimeout'>;
  /** Counts content that a request comes to need as used; false when it is not here. */
  readonly claimed: (digest: Digest, payer: string | undefined) => Promise<boolean>;
  /** Verifies a gzip file of files and takes it into the content store. */
  readonly ingest: (source: ByteSource, name: string, caller: Intake) => Promise<Measured>;
}

// One request leaves turns to others of the same caller.
const includedAtOnce = 4;

export function createIncludedLayers(deps: IncludedLayersDeps) {
  const { fetched, limits, claimed, ingest } = deps;
  const urlLimit: SizeLimit = {
    bytes: limits.maxUrlBytes,
    advice: 'for a download: split it, or ask the operator to raise layers.maxUrlBytes',
  };
  const tarLimit: SizeLimit = {
    bytes: limits.maxTarBytes,
    advice:
      "for all layers of a request: include fewer images, name one 'containerPlatform', or ask the operator to raise layers.maxTarBytes",
  };
  const fetches = createLayerFetches<IncludedNote>({ timeoutMs: limits.fetchTimeout });
  const rewriter = createStackRewriter(deps);

  /** Returns what is noted of a layer that its repository has sent before and shows to the caller; undefined for none. */
  const shownBefore = async (
    { name, layer, packing, place, show }: IncludedLayer,
    caller: Intake,
  ) => {
    const text = await fetched.find(place, Date.now());
    if (text === undefined) return undefined;
    await show(caller.signal).catch(error => {
      throw caller.signal?.aborted ? error : notSent(error, name);
    });
    const before = JSON.parse(text) as IncludedNote;
    const isAsNamed = isSame(before, layer) && (before.packing ?? 'gzip') === packing;
    if (!isAsNamed) throw notAsNamed(name);
    return before;
  };

  /** Any registry may name any digest: only the bytes prove that it has the blob, and what is in it. */
  const takeOne = async (included: IncludedLayer, caller: Intake): Promise<IncludedNote> => {
    const { name, layer, packing, place, right, open } = included;
    const { gzipDigest, gzipSize, tarDigest } = layer;
    if (gzipSize > urlLimit.bytes) throw tooLarge(name, urlLimit);
    const before = await shownBefore(included, caller);
    if (before && (await claimed(gzipDigest, caller.payer))) {
      count(before, name, caller);
      return before;
    }
    // Another image may describe the same layer in another way, and is refused for it.
    const key = JSON.stringify([caller.user, caller.network, right, gzipSize, tarDigest, packing]);
    const unpacked = { left: limits.maxTarBytes, limit: limits.maxTarBytes };
    const note = await fetches(key, caller, async signal => {
      let tarSize = 0;
      const check = createWhiteoutCheck(place);
      const inspect = (bytes: Buffer) => {
        tarSize += bytes.length;
        check.write(bytes);
      };
      try {
        const body = await open(signal);
        signal.addEventListener('abort', () => body.destroy(signal.reason), { once: true });
        const expected = { gzipDigest, gzipSize, tarDigest };
        const intake = { ...caller, signal, inspect, expected, unpacked, packing };
        const flowing = requireFlow(body, place.slice(0, place.indexOf('/')));
        const measured = await ingest(flowing, place, intake);
        const note: IncludedNote = { ...measured, tarSize, hides: check.hides, packing };
        fetched.put(place, JSON.stringify(note), Date.now());
        return note;
      } catch (error) {
        throw notSent(signal.aborted ? signal.reason : error, place);
      }
    }).catch(error => {
      // Several requests may wait for one fetch: each names the image as its own caller does.
      const isOfLayer = error instanceof Fault && error.message.startsWith(place);
      throw isOfLayer ? error.withMessage(`${name}${error.message.slice(place.length)}`) : error;
    });
    count(note, name, caller);
    return note;
  };

  const count = ({ tarSize }: IncludedNote, name: string, { unpacked }: Intake): void => {
    unpacked.left -= tarSize;
    if (unpacked.left < 0) throw tooLarge(name, tarLimit);
  };

  /** Returns the layers of a stack that was written without deleted files before; undefined for another one. */
  const takeRewritten = async (stack: readonly IncludedLayer[], caller: Intake) => {
    const rewritten = await rewriter.find(stack.map(({ layer }) => layer));
    if (!rewritten) return undefined;
    const notes: IncludedNote[] = [];
    for (const one of stack) {
      const note = await shownBefore(one, caller);
      if (!note) return undefined;
      notes.push(note);
    }
    for (const { gzipDigest } of rewritten) {
      if (!(await claimed(gzipDigest, caller.payer))) return undefined;
    }
    for (const [at, note] of notes.entries())
      count(note, (stack[at] as IncludedLayer).name, caller);
    return rewritten;
  };

  return {
    /** Returns the layers of stacks as they were written before, or as their images describe them. Fetches nothing. */
    async expect(stacks: readonly (readonly IncludedLayer[])[]): Promise<InjectedLayer[]> {
      const expected: InjectedLayer[] = [];
      for (const stack of stacks) {
        const described = stack.map(({ layer }) => layer);
        expected.push(...((await rewriter.find(described)) ?? described));
      }
      return expected;
    },

    /** Takes in stacks of layers, each the layers of an image for one platform. Throws a {@link Fault}. */
    async take(
      stacks: readonly (readonly IncludedLayer[])[],
      given: Intake,
    ): Promise<InjectedLayer[]> {
      const keyOf = ({ place, layer, packing }: IncludedLayer) =>
        `${place} ${layer.gzipSize} ${layer.tarDigest} ${packing}`;
      const unique = (layers: readonly IncludedLayer[]) => [
        ...new Map(layers.map(one => [keyOf(one), one])).values(),
      ];
      const bytes = unique(stacks.flat()).reduce((sum, { layer }) => sum + layer.gzipSize, 0);
      if (bytes > limits.maxTarBytes) throw tooLarge("'containerIncludes'", tarLimit);
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(tooLate(limits.fetchTimeout)), limits.fetchTimeout);
      const signal = AbortSignal.any([late.signal, ...(given.signal ? [given.signal] : [])]);
      const caller = { ...given, signal };
      try {
        const before = await inTurns(includedAtOnce, stacks, one => takeRewritten(one, caller));
        const each = unique(stacks.filter((_, at) => !before[at]).flat());
        const taken = await inTurns(includedAtOnce, each, one => takeOne(one, caller));
        const notes = new Map(each.map((one, at) => [keyOf(one), taken[at] as IncludedNote]));
        const done: InjectedLayer[] = [];
        for (const [at, stack] of stacks.entries()) {
          const layers = stack.map(({ layer }) => layer);
          const packed = stack.map(({ layer, packing }) => ({ ...layer, packing }));
          const top = stack.findLastIndex(
            one => one.packing !== 'gzip' || notes.get(keyOf(one))?.hides,
          );
          const isKept = before[at] !== undefined || top < 0;
          const own = isKept ? layers : await rewriter.rewrite(packed, top, caller);
          done.push(...(before[at] ?? own));
        }
        return done;
      } finally {
        clearTimeout(timer);
        // Ends the others when one has failed.
        late.abort();
      }
    },
  };
}
