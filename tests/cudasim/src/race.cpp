#include "tests/cudasim/src/machine.h"
namespace cudasim {
bool race_on;
void race_launch_begin(){} void race_launch_end(){} void race_block_begin(Block*){} void race_block_end(Block*){}
void race_meet(Block*,unsigned,uint32_t){} void race_meet_threads(Block*,const std::vector<unsigned>&){}
void race_release(Fiber*,const void*){} void race_acquire(Fiber*,const void*){} void race_drop(const void*){}
void race_mbar_init(Fiber*,const void*){} void race_mbar_phase(const void*){} void race_mbar_acquire(Fiber*,const void*){} void race_mbar_used_by_copy(const void*){}
void race_access(Fiber*,const void*,size_t,bool){} void race_atomic(Fiber*,const void*,size_t,bool,bool,Sem,Scope){} void race_fence(Fiber*,Scope){}
void race_proxy_fence(Fiber*,bool){} void race_mbar_init_fence(Fiber*){}
RaceTag race_async_begin(Fiber*,const void*){return {};} void race_gather(Fiber*,ClockRef*){} RaceTag race_async_begin_met(Block*,const ClockRef*,int,const void*,const void*){return {};}
void race_async_access(const RaceTag&,const void*,size_t,bool,bool){} void race_async_release(const RaceTag&,const void*){} void race_async_join(Fiber*,const RaceTag&){}
void race_memory(const void*,size_t,bool){} void race_memory_gone(const void*){} void race_written_by_host(const void*,size_t){}
}
