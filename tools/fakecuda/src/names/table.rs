// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the driver: names, the versions of CUDA that brought their forms, and the kind of
//! default stream that they have a second form for: `z` for a stream in their arguments, `d` for none.

/// Separated by semicolons.
pub(crate) const TABLE: &str = "\
cuArray3DCreate 2000 3020; cuArray3DGetDescriptor 2000 3020; cuArrayCreate 2000 3020; \
cuArrayDestroy 2000; cuArrayGetDescriptor 2000 3020; cuArrayGetMemoryRequirements 11060; \
cuArrayGetPlane 11020; cuArrayGetSparseProperties 11010; cuCheckpointProcessCheckpoint 12080; \
cuCheckpointProcessGetRestoreThreadId 12080; cuCheckpointProcessGetState 12080; \
cuCheckpointProcessLock 12080; cuCheckpointProcessRestore 12080; \
cuCheckpointProcessUnlock 12080; cuCoredumpGetAttribute 12010; \
cuCoredumpGetAttributeGlobal 12010; cuCoredumpSetAttribute 12010; \
cuCoredumpSetAttributeGlobal 12010; cuCtxAttach 2000; cuCtxCreate 2000 3020 11040 12050; \
cuCtxDestroy 2000 4000; cuCtxDetach 2000; cuCtxDisablePeerAccess 4000; \
cuCtxEnablePeerAccess 4000; cuCtxFromGreenCtx 12040; cuCtxGetApiVersion 3020; \
cuCtxGetCacheConfig 3020; cuCtxGetCurrent 4000; cuCtxGetDevResource 12040; \
cuCtxGetDevice 2000; cuCtxGetExecAffinity 11040; cuCtxGetFlags 7000; cuCtxGetId 12000; \
cuCtxGetLimit 3010; cuCtxGetSharedMemConfig 4020; cuCtxGetStreamPriorityRange 5050; \
cuCtxPopCurrent 2000 4000; cuCtxPushCurrent 2000 4000; cuCtxRecordEvent 12050; \
cuCtxResetPersistingL2Cache 11000; cuCtxSetCacheConfig 3020; cuCtxSetCurrent 4000; \
cuCtxSetFlags 12010; cuCtxSetLimit 3010; cuCtxSetSharedMemConfig 4020; cuCtxSynchronize 2000; \
cuCtxWaitEvent 12050; cuDestroyExternalMemory 10000; cuDestroyExternalSemaphore 10000; \
cuDevResourceGenerateDesc 12040; cuDevSmResourceSplitByCount 12040; \
cuDeviceCanAccessPeer 4000; cuDeviceComputeCapability 2000; cuDeviceGet 2000; \
cuDeviceGetAttribute 2000; cuDeviceGetByPCIBusId 4010; cuDeviceGetCount 2000; \
cuDeviceGetDefaultMemPool 11020; cuDeviceGetDevResource 12040; \
cuDeviceGetExecAffinitySupport 11040; cuDeviceGetGraphMemAttribute 11040; \
cuDeviceGetLuid 10000; cuDeviceGetMemPool 11020; cuDeviceGetName 2000; \
cuDeviceGetNvSciSyncAttributes 10020; cuDeviceGetP2PAttribute 8000; cuDeviceGetPCIBusId 4010; \
cuDeviceGetProperties 2000; cuDeviceGetTexture1DLinearMaxWidth 11010; \
cuDeviceGetUuid 9020 11040; cuDeviceGraphMemTrim 11040; cuDevicePrimaryCtxGetState 7000; \
cuDevicePrimaryCtxRelease 7000 11000; cuDevicePrimaryCtxReset 7000 11000; \
cuDevicePrimaryCtxRetain 7000; cuDevicePrimaryCtxSetFlags 7000 11000; \
cuDeviceRegisterAsyncNotification 12040; cuDeviceSetGraphMemAttribute 11040; \
cuDeviceSetMemPool 11020; cuDeviceTotalMem 2000 3020; \
cuDeviceUnregisterAsyncNotification 12040; cuDriverGetVersion 2020; cuEventCreate 2000; \
cuEventDestroy 2000 4000; cuEventElapsedTime 2000 12080; cuEventQuery 2000; \
cuEventRecord:z 2000; cuEventRecordWithFlags:z 11010; cuEventSynchronize 2000; \
cuExternalMemoryGetMappedBuffer 10000; cuExternalMemoryGetMappedMipmappedArray 10000; \
cuFlushGPUDirectRDMAWrites 11030; cuFuncGetAttribute 2020; cuFuncGetModule 11000; \
cuFuncGetName 12030; cuFuncGetParamInfo 12040; cuFuncIsLoaded 12040; cuFuncLoad 12040; \
cuFuncSetAttribute 9000; cuFuncSetBlockShape 2000; cuFuncSetCacheConfig 3000; \
cuFuncSetSharedMemConfig 4020; cuFuncSetSharedSize 2000; cuGetErrorName 6000; \
cuGetErrorString 6000; cuGetExportTable 3000; cuGetProcAddress 11030 12000; \
cuGraphAddBatchMemOpNode 11070; cuGraphAddChildGraphNode 10000; \
cuGraphAddDependencies 10000 12030; cuGraphAddEmptyNode 10000; \
cuGraphAddEventRecordNode 11010; cuGraphAddEventWaitNode 11010; \
cuGraphAddExternalSemaphoresSignalNode 11020; cuGraphAddExternalSemaphoresWaitNode 11020; \
cuGraphAddHostNode 10000; cuGraphAddKernelNode 10000 12000; cuGraphAddMemAllocNode 11040; \
cuGraphAddMemFreeNode 11040; cuGraphAddMemcpyNode 10000; cuGraphAddMemsetNode 10000; \
cuGraphAddNode 12020 12030; cuGraphBatchMemOpNodeGetParams 11070; \
cuGraphBatchMemOpNodeSetParams 11070; cuGraphChildGraphNodeGetGraph 10000; cuGraphClone 10000; \
cuGraphConditionalHandleCreate 12030; cuGraphCreate 10000; cuGraphDebugDotPrint 11030; \
cuGraphDestroy 10000; cuGraphDestroyNode 10000; cuGraphEventRecordNodeGetEvent 11010; \
cuGraphEventRecordNodeSetEvent 11010; cuGraphEventWaitNodeGetEvent 11010; \
cuGraphEventWaitNodeSetEvent 11010; cuGraphExecBatchMemOpNodeSetParams 11070; \
cuGraphExecChildGraphNodeSetParams 11010; cuGraphExecDestroy 10000; \
cuGraphExecEventRecordNodeSetEvent 11010; cuGraphExecEventWaitNodeSetEvent 11010; \
cuGraphExecExternalSemaphoresSignalNodeSetParams 11020; \
cuGraphExecExternalSemaphoresWaitNodeSetParams 11020; cuGraphExecGetFlags 12000; \
cuGraphExecHostNodeSetParams 10020; cuGraphExecKernelNodeSetParams 10010 12000; \
cuGraphExecMemcpyNodeSetParams 10020; cuGraphExecMemsetNodeSetParams 10020; \
cuGraphExecNodeSetParams 12020; cuGraphExecUpdate 10020 12000; \
cuGraphExternalSemaphoresSignalNodeGetParams 11020; \
cuGraphExternalSemaphoresSignalNodeSetParams 11020; \
cuGraphExternalSemaphoresWaitNodeGetParams 11020; \
cuGraphExternalSemaphoresWaitNodeSetParams 11020; cuGraphGetEdges 10000 12030; \
cuGraphGetNodes 10000; cuGraphGetRootNodes 10000; cuGraphHostNodeGetParams 10000; \
cuGraphHostNodeSetParams 10000; cuGraphInstantiate 10000 11000; \
cuGraphInstantiateWithFlags 11040; cuGraphInstantiateWithParams:z 12000; \
cuGraphKernelNodeCopyAttributes 11000; cuGraphKernelNodeGetAttribute 11000; \
cuGraphKernelNodeGetParams 10000 12000; cuGraphKernelNodeSetAttribute 11000; \
cuGraphKernelNodeSetParams 10000 12000; cuGraphLaunch:z 10000; \
cuGraphMemAllocNodeGetParams 11040; cuGraphMemFreeNodeGetParams 11040; \
cuGraphMemcpyNodeGetParams 10000; cuGraphMemcpyNodeSetParams 10000; \
cuGraphMemsetNodeGetParams 10000; cuGraphMemsetNodeSetParams 10000; \
cuGraphNodeFindInClone 10000; cuGraphNodeGetDependencies 10000 12030; \
cuGraphNodeGetDependentNodes 10000 12030; cuGraphNodeGetEnabled 11060; \
cuGraphNodeGetType 10000; cuGraphNodeSetEnabled 11060; cuGraphNodeSetParams 12020; \
cuGraphReleaseUserObject 11030; cuGraphRemoveDependencies 10000 12030; \
cuGraphRetainUserObject 11030; cuGraphUpload:z 11010; cuGraphicsMapResources:z 3000; \
cuGraphicsResourceGetMappedMipmappedArray 5000; cuGraphicsResourceGetMappedPointer 3000 3020; \
cuGraphicsResourceSetMapFlags 3000 6050; cuGraphicsSubResourceGetMappedArray 3000; \
cuGraphicsUnmapResources:z 3000; cuGraphicsUnregisterResource 3000; cuGreenCtxCreate 12040; \
cuGreenCtxDestroy 12040; cuGreenCtxGetDevResource 12040; cuGreenCtxGetId 12090; \
cuGreenCtxRecordEvent 12040; cuGreenCtxStreamCreate 12050; cuGreenCtxWaitEvent 12040; \
cuImportExternalMemory 10000; cuImportExternalSemaphore 10000; cuInit 2000; \
cuIpcCloseMemHandle 4010; cuIpcGetEventHandle 4010; cuIpcGetMemHandle 4010; \
cuIpcOpenEventHandle 4010; cuIpcOpenMemHandle 4010 11000; cuKernelGetAttribute 12000; \
cuKernelGetFunction 12000; cuKernelGetLibrary 12050; cuKernelGetName 12030; \
cuKernelGetParamInfo 12040; cuKernelSetAttribute 12000; cuKernelSetCacheConfig 12000; \
cuLaunch 2000; cuLaunchCooperativeKernel:z 9000; cuLaunchCooperativeKernelMultiDevice 9000; \
cuLaunchGrid 2000; cuLaunchGridAsync 2000; cuLaunchHostFunc:z 10000; cuLaunchKernel:z 4000; \
cuLaunchKernelEx:z 11060; cuLibraryEnumerateKernels 12040; cuLibraryGetGlobal 12000; \
cuLibraryGetKernel 12000; cuLibraryGetKernelCount 12040; cuLibraryGetManaged 12000; \
cuLibraryGetModule 12000; cuLibraryGetUnifiedFunction 12000; cuLibraryLoadData 12000; \
cuLibraryLoadFromFile 12000; cuLibraryUnload 12000; cuLinkAddData 5050 6050; \
cuLinkAddFile 5050 6050; cuLinkComplete 5050; cuLinkCreate 5050 6050; cuLinkDestroy 5050; \
cuLogsCurrent 12090; cuLogsDumpToFile 12090; cuLogsDumpToMemory 12090; \
cuLogsRegisterCallback 12090; cuLogsUnregisterCallback 12090; cuMemAddressFree 10020; \
cuMemAddressReserve 10020; cuMemAdvise 8000 12020; cuMemAlloc 2000 3020; \
cuMemAllocAsync:z 11020; cuMemAllocFromPoolAsync:z 11020; cuMemAllocHost 2000 3020; \
cuMemAllocManaged 6000; cuMemAllocPitch 2000 3020; cuMemBatchDecompressAsync:z 12060; \
cuMemCreate 10020; cuMemExportToShareableHandle 10020; cuMemFree 2000 3020; \
cuMemFreeAsync:z 11020; cuMemFreeHost 2000; cuMemGetAccess 10020; \
cuMemGetAddressRange 2000 3020; cuMemGetAllocationGranularity 10020; \
cuMemGetAllocationPropertiesFromHandle 10020; cuMemGetHandleForAddressRange 11070; \
cuMemGetInfo 2000 3020; cuMemHostAlloc 2020; cuMemHostGetDevicePointer 2020 3020; \
cuMemHostGetFlags 2030; cuMemHostRegister 4000 6050; cuMemHostUnregister 4000; \
cuMemImportFromShareableHandle 10020; cuMemMap 10020; cuMemMapArrayAsync:z 11010; \
cuMemPoolCreate 11020; cuMemPoolDestroy 11020; cuMemPoolExportPointer 11020; \
cuMemPoolExportToShareableHandle 11020; cuMemPoolGetAccess 11020; cuMemPoolGetAttribute 11020; \
cuMemPoolImportFromShareableHandle 11020; cuMemPoolImportPointer 11020; \
cuMemPoolSetAccess 11020; cuMemPoolSetAttribute 11020; cuMemPoolTrimTo 11020; \
cuMemPrefetchAsync:z 8000 12020; cuMemRangeGetAttribute 8000; cuMemRangeGetAttributes 8000; \
cuMemRelease 10020; cuMemRetainAllocationHandle 11000; cuMemSetAccess 10020; cuMemUnmap 10020; \
cuMemcpy:d 4000; cuMemcpy2D:d 2000 3020; cuMemcpy2DAsync:z 2000 3020; \
cuMemcpy2DUnaligned:d 2000 3020; cuMemcpy3D:d 2000 3020; cuMemcpy3DAsync:z 2000 3020; \
cuMemcpy3DBatchAsync:z 12080; cuMemcpy3DPeer:d 4000; cuMemcpy3DPeerAsync:z 4000; \
cuMemcpyAsync:z 4000; cuMemcpyAtoA:d 2000 3020; cuMemcpyAtoD:d 2000 3020; \
cuMemcpyAtoH:d 2000 3020; cuMemcpyAtoHAsync:z 2000 3020; cuMemcpyBatchAsync:z 12080; \
cuMemcpyDtoA:d 2000 3020; cuMemcpyDtoD:d 2000 3020; cuMemcpyDtoDAsync:z 3000 3020; \
cuMemcpyDtoH:d 2000 3020; cuMemcpyDtoHAsync:z 2000 3020; cuMemcpyHtoA:d 2000 3020; \
cuMemcpyHtoAAsync:z 2000 3020; cuMemcpyHtoD:d 2000 3020; cuMemcpyHtoDAsync:z 2000 3020; \
cuMemcpyPeer:d 4000; cuMemcpyPeerAsync:z 4000; cuMemsetD16:d 2000 3020; \
cuMemsetD16Async:z 3020; cuMemsetD2D16:d 2000 3020; cuMemsetD2D16Async:z 3020; \
cuMemsetD2D32:d 2000 3020; cuMemsetD2D32Async:z 3020; cuMemsetD2D8:d 2000 3020; \
cuMemsetD2D8Async:z 3020; cuMemsetD32:d 2000 3020; cuMemsetD32Async:z 3020; \
cuMemsetD8:d 2000 3020; cuMemsetD8Async:z 3020; cuMipmappedArrayCreate 5000; \
cuMipmappedArrayDestroy 5000; cuMipmappedArrayGetLevel 5000; \
cuMipmappedArrayGetMemoryRequirements 11060; cuMipmappedArrayGetSparseProperties 11010; \
cuModuleEnumerateFunctions 12040; cuModuleGetFunction 2000; cuModuleGetFunctionCount 12040; \
cuModuleGetGlobal 2000 3020; cuModuleGetLoadingMode 11070; cuModuleGetSurfRef 3000; \
cuModuleGetTexRef 2000; cuModuleLoad 2000; cuModuleLoadData 2000; cuModuleLoadDataEx 2010; \
cuModuleLoadFatBinary 2000; cuModuleUnload 2000; cuMulticastAddDevice 12010; \
cuMulticastBindAddr 12010; cuMulticastBindMem 12010; cuMulticastCreate 12010; \
cuMulticastGetGranularity 12010; cuMulticastUnbind 12010; \
cuOccupancyAvailableDynamicSMemPerBlock 10020; \
cuOccupancyMaxActiveBlocksPerMultiprocessor 6050; \
cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000; cuOccupancyMaxActiveClusters 11070; \
cuOccupancyMaxPotentialBlockSize 6050; cuOccupancyMaxPotentialBlockSizeWithFlags 7000; \
cuOccupancyMaxPotentialClusterSize 11070; cuParamSetSize 2000; cuParamSetTexRef 2000; \
cuParamSetf 2000; cuParamSeti 2000; cuParamSetv 2000; cuPointerGetAttribute 4000; \
cuPointerGetAttributes 7000; cuPointerSetAttribute 6000; cuProfilerInitialize 4000; \
cuProfilerStart 4000; cuProfilerStop 4000; cuSignalExternalSemaphoresAsync:z 10000; \
cuStreamAddCallback:z 5000; cuStreamAttachMemAsync:z 6000; cuStreamBatchMemOp:z 8000 11070; \
cuStreamBeginCapture:z 10000 10010; cuStreamBeginCaptureToGraph:z 12030; \
cuStreamCopyAttributes:z 11000; cuStreamCreate 2000; cuStreamCreateWithPriority 5050; \
cuStreamDestroy 2000 4000; cuStreamEndCapture:z 10000; cuStreamGetAttribute:z 11000; \
cuStreamGetCaptureInfo:z 10010 11030 12030; cuStreamGetCtx:z 9020 12050; \
cuStreamGetDevice:z 12080; cuStreamGetFlags:z 5050; cuStreamGetGreenCtx 12040; \
cuStreamGetId:z 12000; cuStreamGetPriority:z 5050; cuStreamIsCapturing:z 10000; \
cuStreamQuery:z 2000; cuStreamSetAttribute:z 11000; cuStreamSynchronize:z 2000; \
cuStreamUpdateCaptureDependencies:z 11030 12030; cuStreamWaitEvent:z 3020; \
cuStreamWaitValue32:z 8000 11070; cuStreamWaitValue64:z 9000 11070; \
cuStreamWriteValue32:z 8000 11070; cuStreamWriteValue64:z 9000 11070; cuSurfObjectCreate 5000; \
cuSurfObjectDestroy 5000; cuSurfObjectGetResourceDesc 5000; cuSurfRefGetArray 3000; \
cuSurfRefSetArray 3000; cuTensorMapEncodeIm2col 12000; cuTensorMapEncodeIm2colWide 12080; \
cuTensorMapEncodeTiled 12000; cuTensorMapReplaceAddress 12000; cuTexObjectCreate 5000; \
cuTexObjectDestroy 5000; cuTexObjectGetResourceDesc 5000; cuTexObjectGetResourceViewDesc 5000; \
cuTexObjectGetTextureDesc 5000; cuTexRefCreate 2000; cuTexRefDestroy 2000; \
cuTexRefGetAddress 2000 3020; cuTexRefGetAddressMode 2000; cuTexRefGetArray 2000; \
cuTexRefGetBorderColor 8000; cuTexRefGetFilterMode 2000; cuTexRefGetFlags 2000; \
cuTexRefGetFormat 2000; cuTexRefGetMaxAnisotropy 5000; cuTexRefGetMipmapFilterMode 5000; \
cuTexRefGetMipmapLevelBias 5000; cuTexRefGetMipmapLevelClamp 5000; \
cuTexRefGetMipmappedArray 5000; cuTexRefSetAddress 2000 3020; \
cuTexRefSetAddress2D 2020 3020 4010; cuTexRefSetAddressMode 2000; cuTexRefSetArray 2000; \
cuTexRefSetBorderColor 8000; cuTexRefSetFilterMode 2000; cuTexRefSetFlags 2000; \
cuTexRefSetFormat 2000; cuTexRefSetMaxAnisotropy 5000; cuTexRefSetMipmapFilterMode 5000; \
cuTexRefSetMipmapLevelBias 5000; cuTexRefSetMipmapLevelClamp 5000; \
cuTexRefSetMipmappedArray 5000; cuThreadExchangeStreamCaptureMode 10010; \
cuUserObjectCreate 11030; cuUserObjectRelease 11030; cuUserObjectRetain 11030; \
cuWaitExternalSemaphoresAsync:z 10000;";
