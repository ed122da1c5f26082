import { Fault } from '../../../foundation/fault.ts';
import { formatReference, OciSyntaxError, parseReference } from '../../../oci/naming.ts';
import { frontendImage } from './frontend-image.ts';
import { malformed } from './instructions.ts';
import { readStages, type Stage, type StageOptions, triggerSources } from './stages.ts';

/** An image that a builder pulls for a Dockerfile. */
interface BaseImage {
  /** Its full name, `registry/repository[:tag][@digest]`. */
  readonly reference: string;
  /** The line of the instruction that names it, counted from 1. */
  readonly line: number;
  /** `syntax` for the image of the frontend that reads the Dockerfile. */
  readonly use: 'FROM' | 'COPY' | 'RUN' | 'syntax';
}

export interface BaseImageOptions extends StageOptions {
  /** Images that replace other images and stages, by {@link contextName}. */
  readonly namedContexts?: Readonly<Record<string, string>>;
}

/** Maximum number of images of a build: each registry is asked whether the caller may pull its image. */
export const maxImages = 100;

/**
 * Returns the images that a build of the Dockerfile pulls, each once, in the order of their use: the images of FROM,
 * COPY --from and RUN --mount=from= in the stages that the target requires, and the image of its syntax, or their
 * replacements. `scratch` is not an image. {@link triggeredImages} returns those that ONBUILD triggers of these images
 * pull. Throws a `Fault` with the line for a Dockerfile that no builder would accept. Source: Dockerfile reference.
 */
export function baseImagesOf(dockerfile: string, options: BaseImageOptions = {}): BaseImage[] {
  const stages = readStages(dockerfile, options);
  const found = collectImages(options);
  const frontend = frontendImage(dockerfile);
  if (frontend) found.add(frontend.reference, frontend.line, 'syntax');
  found.addStages(stages, [targetOf(stages, options.target)]);
  return found.images();
}

/** Collects the images of a build, each once. */
function collectImages({ namedContexts = {} }: BaseImageOptions) {
  const images = new Map<string, BaseImage>();
  const contexts = new Map(Object.entries(namedContexts));
  const replacementOf = ({ name }: Stage) => (name === undefined ? undefined : contexts.get(name));
  const put = (image: BaseImage) => {
    if (!images.has(image.reference)) images.set(image.reference, image);
    if (images.size > maxImages) malformed(image.line, `it uses more than ${maxImages} images`);
  };
  const add = (name: string, line: number, use: BaseImage['use']) => {
    if (name === 'scratch') return;
    const own = fullName(name) ?? malformed(line, nameProblem(name));
    put({ reference: contexts.get(contextName(name)) ?? own, line, use });
  };
  return {
    add,

    /** Adds the images of these stages, and of those that they require. */
    addStages(stages: readonly Stage[], wanted: readonly Stage[]) {
      const isReplaced = (stage: Stage) => replacementOf(stage) !== undefined;
      for (const stage of neededStages(stages, wanted, isReplaced)) {
        const { line, base, sources } = stage;
        const replacement = replacementOf(stage);
        if (replacement !== undefined) {
          put({ reference: replacement, line, use: 'FROM' });
          continue;
        }
        if (typeof base === 'string') add(base, line, 'FROM');
        for (const source of sources) {
          if (typeof source.from === 'string') add(source.from, source.line, source.use);
        }
      }
    },

    images: () => [...images.values()].sort((one, other) => one.line - other.line),
  };
}

/**
 * Returns the full names of the images that `ONBUILD` triggers of a base image pull in a build of the Dockerfile, or of
 * their replacements: those that they name, and those of the stages that they name. Throws a `Fault` (400) for a trigger
 * that no builder would accept.
 */
export function triggeredImages(
  triggers: readonly string[],
  dockerfile: string,
  options: BaseImageOptions = {},
): readonly string[] {
  if (triggers.length === 0) return [];
  const stages = readStages(dockerfile, options);
  const found = collectImages(options);
  for (const { from, line, use } of triggerSources(triggers, stages)) {
    const stage = typeof from === 'number' ? stages[from] : undefined;
    if (stage) found.addStages(stages, [stage]);
    else found.add(String(from), line, use);
  }
  return found.images().map(({ reference }) => reference);
}

/** Returns the platforms that FROM instructions of the Dockerfile ask for, as they are written. */
export function stagePlatforms(dockerfile: string, options: StageOptions = {}): readonly string[] {
  const platforms = readStages(dockerfile, options).map(({ platform }) => platform);
  return [...new Set(platforms.filter(platform => platform !== undefined))];
}

function targetOf(stages: readonly Stage[], target: string | undefined): Stage {
  const wanted = target?.toLowerCase();
  const found =
    wanted === undefined ? stages.at(-1) : stages.findLast(stage => stage.name === wanted);
  return found ?? malformed(1, `the stage '${target}' does not exist`);
}

/** Returns the wanted stages and those that they require. A replaced stage requires none of its own sources. */
function neededStages(
  stages: readonly Stage[],
  wanted: readonly Stage[],
  isReplaced: (stage: Stage) => boolean,
): readonly Stage[] {
  const needed = new Set(wanted);
  for (const stage of needed) {
    if (isReplaced(stage)) continue;
    for (const other of [stage.base, ...stage.sources.map(({ from }) => from)]) {
      const found = typeof other === 'number' ? stages[other] : undefined;
      if (found) needed.add(found);
    }
  }
  return stages.filter(stage => needed.has(stage));
}

function fullName(name: string): string | undefined {
  try {
    return formatReference(parseReference(name));
  } catch (error) {
    if (error instanceof OciSyntaxError) return undefined;
    throw error;
  }
}

function nameProblem(name: string): string {
  try {
    parseReference(name);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Returns the name under which BuildKit looks up a named build context that replaces an image or a stage. It is the
 * shortest spelling of an image name: `alpine` for `docker.io/library/alpine:latest`. BuildKit treats two names as the
 * same if and only if these are equal: `registry-1.docker.io` is not Docker Hub here. Source:
 * github.com/distribution/reference, ParseNormalizedNamed and FamiliarString, as BuildKit's frontend/dockerui applies
 * them.
 */
export function contextName(image: string): string {
  const slash = image.indexOf('/');
  const first = slash < 0 ? '' : image.slice(0, slash);
  const isHost = /[.:A-Z]/.test(first) || first === 'localhost';
  const isHub = !isHost || first === 'docker.io' || first === 'index.docker.io';
  const path = isHost ? image.slice(slash + 1) : image;
  const short = isHub ? path.replace(/^library\/(?=[^/]+$)/, '') : `${first}/${path}`;
  return short.replace(/:latest$/, '');
}

// The images in which Docker publishes the frontend that reads Dockerfiles.
const knownFrontend = /^docker\.io\/docker\/dockerfile(?:-upstream)?[:@]/;

/**
 * Replacement for Docker's frontend images, which `# syntax=` lines name: `declared` for none, `builder` for the
 * builder's own frontend, or an image. An image without tag and digest gets those of the line.
 */
export type FrontendSetting = 'declared' | 'builder' | (string & {});

/** The frontend that reads a Dockerfile, and all images that are pulled with it. */
interface FrontendChoice {
  /** `builder` or an image; undefined for the frontend that the Dockerfile specifies. */
  readonly frontend: string | undefined;
  readonly bases: readonly BaseImage[];
}

/**
 * Applies the setting to the images of a Dockerfile. Throws a `Fault` (400) for a frontend that is not Docker's: it
 * would run in the builder itself, and could pull images that nobody has checked.
 */
export function chooseFrontend(
  bases: readonly BaseImage[],
  setting: FrontendSetting,
): FrontendChoice {
  const declared = bases.find(({ use }) => use === 'syntax');
  if (!declared) return { frontend: undefined, bases };
  const { reference, line } = declared;
  if (!knownFrontend.test(reference)) {
    throw new Fault(
      'bad-request',
      `The Dockerfile, line ${line}: the syntax ${reference} is not allowed on this server, only docker/dockerfile: remove the line, or name docker/dockerfile`,
      { phase: 'request' },
    );
  }
  if (setting === 'declared') return { frontend: undefined, bases };
  const others = bases.filter(base => base !== declared);
  if (setting === 'builder') return { frontend: 'builder', bases: others };
  const image = formatReference(
    isVersioned(setting)
      ? parseReference(setting)
      : { ...parseReference(reference), ...placeOf(setting) },
  );
  return { frontend: image, bases: [{ ...declared, reference: image }, ...others] };
}

function isVersioned(name: string): boolean {
  return /[:@]/.test(name.slice(name.lastIndexOf('/') + 1));
}

function placeOf(name: string) {
  const { registry, repository } = parseReference(name);
  return { registry, repository };
}
