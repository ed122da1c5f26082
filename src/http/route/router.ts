import { Router as KoaRouter } from '@koa/router';
import { Fault } from '../../foundation/fault.ts';
import type { Declaration } from './declaration.ts';

type Routable = Pick<Declaration, 'method' | 'path' | 'aliases'>;

/** The route of a request, or the methods that its path supports instead. */
export type Found<R> =
  | {
      readonly route: R;
      /** The decoded texts of the path parameters, by name. */
      readonly params: Readonly<Record<string, string>>;
    }
  | {
      readonly methods: readonly string[];
      /** One of the routes with the path. */
      readonly other: R;
    };

/** Returns undefined for a path without a route. */
export type Router<R> = (method: string, path: string) => Found<R> | undefined;

/** Creates a router, which finds routes by method and path. It treats `HEAD` as `GET` and ignores a slash at
 * the end, but not case. */
export function createRouter<R extends Routable>(routes: readonly R[]): Router<R> {
  const router = new KoaRouter({ sensitive: true });
  const routeOf = new Map<object, R>();
  for (const route of routes) {
    for (const path of [route.path, ...(route.aliases ?? [])]) {
      const layer = router.register(path.replace(/\{(\w+)\}/g, ':$1'), [route.method], () => {});
      routeOf.set(layer, route);
    }
  }
  return (method, path) => {
    const { path: samePath, pathAndMethod } = router.match(path, method);
    const [layer] = pathAndMethod;
    const route = layer && routeOf.get(layer);
    if (route) return { route, params: layer.params(path, layer.captures(path)) };
    const other = samePath[0] && routeOf.get(samePath[0]);
    return other && { methods: samePath.flatMap(({ methods }) => methods), other };
  };
}

/** Returns the label of a route in metrics: at most two segments of its path, up to the first parameter. */
export function labelOf({ path }: Pick<Declaration, 'path'>): string {
  return path
    .replace(/\/\{.*$/s, '')
    .split('/')
    .slice(0, 3)
    .join('/');
}

/** Returns the fault for a method that a route does not allow. `Allow` lists its methods (RFC 9110, 15.5.6). */
export function wrongMethod(method: string, methods: readonly string[]): Fault {
  const allow = [...new Set(methods)].join(', ');
  return new Fault('method-not-allowed', `${method} is not allowed here: use ${allow}`, {
    phase: 'request',
    headers: { allow },
  });
}
