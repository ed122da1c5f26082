import type { Builds } from '../../builds/index.ts';
import { type BuildPlan, isNative } from '../../builds/plan/build-plan.ts';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { layersIn } from '../../images/augment/index.ts';
import { imageConfig } from '../../images/index.ts';
import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  type Document,
  type JsonObject,
  memberName,
  parseLossless,
  parseManifest,
} from '../../oci/index.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import {
  formatReference,
  isAttestation,
  parseReference,
  supportedPlatforms,
} from '../../oci/naming.ts';
import { mayPullServed } from '../../platform/built-in/index.ts';
import {
  type ContainerRequest,
  type InspectedImage,
  type ManifestName,
  type OpenRequest,
  orasScheme,
} from '../../request/index.ts';
import type { TokenRegistry } from '../../request/tokens/index.ts';
import type { PullStore } from '../../storage/rows/index.ts';
import { type UsedImage, usedImage } from '../ask/use-commands.ts';
import { type BuildView, type BuildViewDeps, viewBuild } from '../builds/build-view.ts';
import type { Viewer } from '../frame/page-route.ts';
import { type ConfigGroup, configDifference } from './config-difference.ts';
import { type ContainerPulls, readContainerPulls } from './container-pulls.ts';

/** Where a layer comes from. */
export type LayerOrigin = 'base' | 'package' | 'built' | 'injected';

export interface StackedLayer extends LayerFacts {
  readonly origin: LayerOrigin;
}

/** What is in the image of a container request, for one platform. */
export interface ContainerImage {
  readonly platforms: readonly string[];
  readonly platform: string;
  /** The name by which the page of a layer opens the image; undefined where the name alone is not enough to pull. */
  readonly name: string | undefined;
  /** The lowest layer first. */
  readonly layers: readonly StackedLayer[];
  readonly config: readonly ConfigGroup[];
}

/** The state of a container request, as people need to know it. */
type ContainerState =
  | { readonly kind: 'ready' | 'ended' | 'frozen' }
  | { readonly kind: 'building'; readonly build: BuildView }
  | { readonly kind: 'failed'; readonly reason: string };

/** What the page of a container request shows. */
export interface ContainerData {
  readonly request: ContainerRequest;
  readonly source: string;
  /** The plan of its build, while the build is known. */
  readonly plan: BuildPlan | undefined;
  readonly state: ContainerState;
  /** The image; or why it cannot be shown; undefined for one that does not exist. */
  readonly image: ContainerImage | { readonly why: string; readonly isLate?: true } | undefined;
  readonly used: UsedImage;
  readonly pulls: ContainerPulls;
}

export interface ContainerPageDeps extends BuildViewDeps {
  readonly tokens: Pick<TokenRegistry, 'describe'>;
  readonly openRequest: OpenRequest;
  readonly pulls: Pick<PullStore, 'byDay' | 'recent'>;
  /** True if a served name alone is not enough to pull. */
  readonly pullsNeedLogin: boolean;
  readonly publicUrl: URL;
}

// A page is shown without the image when its registry takes longer.
const patienceMs = 1500;
const failureMs = 20_000;
// A registry that refuses is not asked again for each view.
const failures = boundedCache<string, string>(1000, { ttl: failureMs });

/** Returns what the page of a token shows. Throws a `Fault` for an unknown token. */
export async function containerData(
  token: string,
  platform: string | undefined,
  { name, caller }: Pick<Viewer, 'name' | 'caller'>,
  deps: ContainerPageDeps,
): Promise<ContainerData> {
  const request = await deps.tokens.describe(token);
  const state = await stateOf(request, deps);
  const mayPull = name !== undefined && mayPullServed(caller, request, deps.publicUrl.host);
  const isShown = !deps.pullsNeedLogin || mayPull;
  const plan = await planOf(request, deps);
  return {
    request,
    state,
    plan,
    source: plan?.origin.kind === 'image' ? askedName(request) : formatReference(request.image),
    image:
      state.kind === 'ready' ? await lookForImage(request, platform, isShown, deps) : undefined,
    used: usedImage(request.targetImage, deps),
    pulls: await readContainerPulls(request.token, deps.pulls),
  };
}

/** Returns the image that was asked for, without the scheme of Singularity images. */
function askedName({ asked, image }: ContainerRequest): string {
  const { containerImage } = asked ?? {};
  return containerImage === undefined
    ? formatReference(image)
    : formatReference(parseReference(containerImage.replace(orasScheme, '')));
}

/** Returns undefined for a request without a build, and for a build that is no longer known. */
async function planOf(
  { buildId }: ContainerRequest,
  { builds }: Pick<ContainerPageDeps, 'builds'>,
): Promise<BuildPlan | undefined> {
  if (buildId === undefined) return undefined;
  try {
    return JSON.parse((await builds.get(buildId)).plan) as BuildPlan;
  } catch (error) {
    if (!(error instanceof Fault) || error.kind !== 'build-unknown') throw error;
    return undefined;
  }
}

async function stateOf(
  { expiresAt, fixed, buildId, isFrozen }: ContainerRequest,
  deps: BuildViewDeps,
): Promise<ContainerState> {
  // A build may be forgotten with the end of its last request.
  if (expiresAt <= Date.now() && !isFrozen) return { kind: 'ended' };
  const build = fixed || buildId === undefined ? undefined : await deps.builds.get(buildId);
  if (build?.succeeded === false) {
    return { kind: 'failed', reason: build.reason ?? 'Its log has the reason.' };
  }
  if (build?.succeeded === null) {
    return { kind: 'building', build: await viewBuild(build.id, deps) };
  }
  return { kind: isFrozen ? 'frozen' : 'ready' };
}

async function lookForImage(
  request: ContainerRequest,
  platform: string | undefined,
  isShown: boolean,
  deps: ContainerPageDeps,
): Promise<ContainerData['image']> {
  if (!isShown) return { why: 'Pulls require a login at this server: log in to see the layers.' };
  const { token } = request;
  const known = failures.get(token);
  if (known !== undefined) return { why: known };
  const late = Promise.withResolvers<{ why: string; isLate: true }>();
  const timer = setTimeout(
    () => late.resolve({ why: 'The registry has not answered yet.', isLate: true }),
    patienceMs,
  );
  const read = readShown(request, platform, deps).catch(error => {
    if (!(error instanceof Fault)) throw error;
    if (error.phase !== 'request') failures.set(token, error.message);
    return { why: error.message };
  });
  try {
    return await Promise.race([read, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

async function readShown(
  request: ContainerRequest,
  wanted: string | undefined,
  { openRequest, builds, pullsNeedLogin }: ContainerPageDeps,
): Promise<ContainerImage> {
  const served = await openRequest(request);
  const choice = choiceOf(served);
  const platform = wanted ?? usualPlatform(choice.platforms, request.platform);
  const after = await choice.read(platform);
  if (!after) {
    throw new Fault(
      'bad-request',
      `The image has no platform '${platform.slice(0, 40)}'; it has: ${choice.platforms.join(', ')}`,
      { phase: 'request' },
    );
  }
  const base = await baseOf(request, builds);
  const isSame = base?.digest === served.root.digest;
  const before = base && !isSame ? await readBase(base, served, platform) : undefined;
  const injected = new Set<string>(layersIn(request.change).map(({ gzipDigest }) => gzipDigest));
  const ofBase = before?.layers.length ?? 0;
  const below = request.isBuilt ? await originOfBuilt(request, builds) : () => 'base' as const;
  return {
    platforms: choice.platforms,
    platform,
    name: pullsNeedLogin ? undefined : request.targetImage,
    layers: after.layers.map((layer, at): StackedLayer => {
      const isAdded = before ? at >= ofBase : injected.has(layer.digest);
      return { ...layer, origin: isAdded ? 'injected' : below(layer) };
    }),
    config: configDifference(before?.config ?? after.config, after.config),
  };
}

/** Returns the image before the changes of the request. */
async function baseOf(
  { fixed, buildId = '' }: ContainerRequest,
  builds: Pick<Builds, 'get'>,
): Promise<ManifestName | undefined> {
  if (fixed) return fixed.base;
  const { digest, mediaType } = await builds.get(buildId);
  return digest === null ? undefined : { digest, mediaType: mediaType ?? mediaTypes.ociManifest };
}

async function readBase(
  { digest, mediaType }: ManifestName,
  { access, documents }: InspectedImage,
  platform: string,
) {
  const root = await documents.manifest(access, digest, mediaType);
  return choiceOf({ access, documents, root }).read(platform);
}

/** The history of an image that this server made of packages names them. Older ones have a note of the server only. */
const packageNotes = ['conda: ', 'pypi: ', 'sluice: injected layer '];

async function originOfBuilt(
  { buildId = '' }: ContainerRequest,
  builds: Pick<Builds, 'get'>,
): Promise<(layer: LayerFacts) => LayerOrigin> {
  const plan = JSON.parse((await builds.get(buildId)).plan) as BuildPlan;
  if (!isNative(plan)) return () => 'built';
  return ({ by }) => (packageNotes.some(note => by?.startsWith(note)) ? 'package' : 'base');
}

function usualPlatform(platforms: readonly string[], requested: string | undefined): string {
  const usual = supportedPlatforms.flatMap(name =>
    platforms.filter(one => one === name || one.startsWith(`${name}/`)),
  );
  const [first = ''] = platforms;
  return [requested, ...usual].find(one => one !== undefined && platforms.includes(one)) ?? first;
}

/** A layer of an image, with the line of the history that belongs to it. */
interface LayerFacts {
  readonly digest: Digest;
  readonly size: number;
  /** Undefined where the history does not fit the layers. */
  readonly by: string | undefined;
}

/** One image of one platform. */
interface ImageFacts {
  readonly layers: readonly LayerFacts[];
  /** The image config; empty for an artifact. */
  readonly config: JsonObject;
}

/** The images of a manifest or index by platform, without reading them. */
interface PlatformChoice {
  /** Such as `linux/arm64/v8`; empty for a single image, which has no choice. */
  readonly platforms: readonly string[];
  /** Reads the image of a platform; undefined for an index without it. */
  read(platform: string): Promise<ImageFacts | undefined>;
}

/** Returns the platforms of an image, in the order of its index. */
function choiceOf({ access, root, documents }: InspectedImage): PlatformChoice {
  const manifest = parseManifest(root);
  if (manifest.kind !== 'index') {
    return { platforms: [], read: () => readImage(root) };
  }
  const entries = new Map(
    manifest.manifests
      .filter(entry => entry.platform && !isAttestation(entry))
      .map(entry => {
        const { os = '', architecture = '', variant } = entry.platform ?? {};
        return [[os, architecture, variant].filter(part => part).join('/'), entry] as const;
      }),
  );
  return {
    platforms: [...entries.keys()],
    async read(platform) {
      const entry = entries.get(platform);
      if (!entry) return undefined;
      return readImage(await documents.manifest(access, entry.digest, entry.mediaType));
    },
  };

  async function readImage(document: Document): Promise<ImageFacts> {
    const parsed = parseManifest(document);
    if (parsed.kind !== 'manifest') return { layers: [], config: {} };
    const own = await imageConfig(documents, access, parsed);
    const config = own ? parseLossless(own.bytes, 'config') : {};
    const makers = makersIn(config);
    // A history that does not fit the layers says nothing about any of them.
    const fits = makers.length === parsed.layers.length;
    return {
      config,
      layers: parsed.layers.map(({ digest, size }, at) => ({
        digest,
        size,
        by: fits ? makers[at] : undefined,
      })),
    };
  }
}

function makersIn(config: JsonObject): (string | undefined)[] {
  const history = config[memberName(config, 'history')];
  return (Array.isArray(history) ? history : [])
    .map(entry => asObject(entry) ?? {})
    .filter(entry => entry.empty_layer !== true)
    .map(({ created_by }) => (typeof created_by === 'string' ? created_by : undefined));
}
