import '../../../foundation/gated-zlib.ts';
import { reformBase } from '../forms/reform-base.ts';
import { reformLayer } from '../forms/reform-layer.ts';
import { LayerOutput } from './layer-output.ts';
import type { LayerOrder } from './layer-threads.ts';
import { joinLayers, packPackage } from './pack-layers.ts';
import { serveLayers } from './serve-layers.ts';

serveLayers<LayerOrder>(async (order, put, written) => {
  switch (order.kind) {
    case 'package':
      return packPackage(order, put, written);
    case 'shared':
      return joinLayers(order.layers, put);
    case 'form':
      return reformLayer(order, put);
    case 'base':
      return reformBase(order, put);
    case 'tar': {
      using output = new LayerOutput(put);
      output.write(order.tar);
      const tarDigest = output.end();
      return { tarDigest, tarBytes: output.tarBytes };
    }
  }
});
