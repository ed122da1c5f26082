import type { LayerContents } from '../layers/package-layers.ts';

/** A package, as scanners know it. */
export interface BilledComponent {
  readonly name: string;
  readonly version: string;
  /** Package URL. Source: ECMA-427. */
  readonly purl: string;
}

/** What a bill of materials says about the image of one platform, with the layers of its packages. */
export interface PlatformParts {
  readonly components: readonly BilledComponent[];
  /** Empty in bills of earlier versions. */
  readonly contents: readonly LayerContents[];
}
