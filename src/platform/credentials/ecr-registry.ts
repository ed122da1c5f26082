/** A registry of AWS. */
export interface EcrRegistry {
  readonly kind: 'private' | 'public';
  /** The region that issues its tokens. */
  readonly region: string;
}

const privateHost =
  /^\d{12}\.dkr\.ecr(?:-fips)?\.((?:[a-z]{2,3}(?:-[a-z]{1,10}){1,3})-\d{1,2})\.amazonaws\.com(?:\.cn)?$/;

/**
 * Describes a registry host of AWS; undefined for other hosts. Source: Amazon ECR user guide, private and public
 * registries.
 */
export function ecrRegistry(host: string): EcrRegistry | undefined {
  if (host === 'public.ecr.aws') return { kind: 'public', region: 'us-east-1' };
  const region = privateHost.exec(host)?.[1];
  return region === undefined ? undefined : { kind: 'private', region };
}
