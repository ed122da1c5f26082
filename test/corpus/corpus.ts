import { artifact } from './artifact.ts';
import { attest } from './attest.ts';
import { big } from './big.ts';
import { busybox } from './busybox.ts';
import { cfg } from './cfg.ts';
import { hist } from './hist.ts';
import type { Family, Image } from './image.ts';
import { layers } from './layers.ts';
import { multi } from './multi.ts';
import { odd } from './odd.ts';
import { old } from './old.ts';
import { Pusher, type PushTarget } from './push.ts';
import { schema1 } from './schema1.ts';

/** Every image of the corpus: `families.cfg.full` is `corpus/cfg:full`, called `cfg:full`. */
const families = {
  busybox,
  cfg,
  hist,
  layers,
  multi,
  attest,
  artifact,
  odd,
  old,
  schema1,
  big,
} satisfies Record<string, Family>;

// Pushed on request only: they are slow, or registries accept them only with a setting.
const onDemand: readonly string[] = ['big', 'schema1'];

/** An image of the corpus in a registry. */
export interface Pushed {
  /** `cfg:full` */
  readonly name: string;
  /** `corpus/cfg` */
  readonly repository: string;
  readonly tag: string;
  /** `127.0.0.1:<port>/corpus/cfg:full` */
  readonly reference: string;
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly image: Image;
}

/** The names of all images that a plain {@link pushCorpus} pushes. */
export function corpusNames(): string[] {
  return Object.entries(families)
    .filter(([family]) => !onDemand.includes(family))
    .flatMap(([family, images]) => Object.keys(images).map(tag => `${family}:${tag}`));
}

function membersOf(name: string): string[] {
  const family: Family | undefined = Object.entries(families).find(([key]) => key === name)?.[1];
  return family === undefined ? [name] : Object.keys(family).map(tag => `${name}:${tag}`);
}

/** Makes an image of the corpus without pushing it. */
export function makeImage(name: string): Promise<Image> {
  const [family = '', tag = ''] = name.split(':');
  const images: Family | undefined = Object.entries(families).find(([key]) => key === family)?.[1];
  const make = images?.[tag];
  if (make === undefined) throw new Error(`The corpus has no image '${name}'`);
  return make();
}

/**
 * Pushes images to `corpus/<family>:<tag>` of the registry. Returns the pushed images by name. A family's name alone
 * stands for all its images.
 */
export async function pushCorpus(
  target: PushTarget,
  selection: readonly string[] = corpusNames(),
): Promise<Map<string, Pushed>> {
  const pushed = new Map<string, Pushed>();
  const names = new Set(selection.flatMap(membersOf));
  const byFamily = Map.groupBy(names, name => name.split(':')[0] ?? '');
  for (const [family, members] of byFamily) {
    const repository = `corpus/${family}`;
    const pusher = await Pusher.open(target, repository);
    try {
      for (const name of members) {
        const image = await makeImage(name);
        const tag = name.slice(family.length + 1);
        await pusher.push(image, tag);
        const { mediaType, digest, size } = image.root;
        const reference = `${new URL(target.url).host}/${repository}:${tag}`;
        pushed.set(name, { name, repository, tag, reference, mediaType, digest, size, image });
      }
    } finally {
      await pusher.close();
    }
  }
  return pushed;
}
